import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hostArch } from '../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../support/bundles/sample-image.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { BrowserSession, cockpitNeeds } from '../../support/cockpit/browser-session.ts';
import { DaemonOnBus } from '../../support/cockpit/daemon-on-bus.ts';
import { stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { have } from '../../support/requirements.ts';

/** One story, in the order of the tests. */
describe.runIf(have('root', 'dbus-daemon', ...cockpitNeeds))('the page in Cockpit, over the real daemon', () => {
  let bus: PrivateBus;
  let daemon: DaemonOnBus;
  let session: BrowserSession;

  beforeAll(async () => {
    bus = await startPrivateBus();
    daemon = await DaemonOnBus.start(bus.address);
    const programs = await stickpinOnPath(daemon.harness.at('bin'));
    session = await BrowserSession.open({ address: bus.address, runFolder: daemon.harness.at('run'), programs });
  });
  afterAll(async () => {
    await session?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await bus?.[Symbol.asyncDispose]();
  });

  const make = (version: string, sequence: number) =>
    daemon.harness.make({
      schedule: 'manual',
      version,
      sequence,
      images: ['etcd', 'api'].map((component) => ({
        component,
        reference: `quay.example.com/ocp/${component}:stable`,
        image: sampleImage({ seed: `${component}-${sequence}`, architecture: hostArch }),
      })),
    });
  const phaseOf = (version: string) =>
    daemon.harness.report().bundles.find((bundle) => bundle.version === version)?.phase;

  it('shows a stick that is plugged in, until its release is ready', async () => {
    await session.shows(/Waiting for a stick/);
    await session.picture('idle');
    daemon.harness.plug((await make('4.13.7', 7)).path);
    await session.shows(/ocp 4\.13\.7 is loaded/);
    await session.picture('ready');
    await session.click('Activate ocp 4.13.7');
    await session.shows(/Activate this release\?/);
    await session.inDialog('Cancel');
  });

  it('activates after a question, which the keyboard can answer', async () => {
    await session.go('releases');
    await session.click('Activate ocp 4.13.7');
    await session.shows(/Activate this release\?/);
    await session.picture('question');
    expect(await session.findings()).toEqual([]);
    await session.page.keyboard.press('Escape');
    await session.shows(/^(?!.*Activate this release\?)/s);
    expect(await session.focused()).toBe('Activate ocp 4.13.7');
    expect(phaseOf('4.13.7')).toBe('ready');
    await session.page.keyboard.press('Enter');
    await session.shows(/Activate this release\?/);
    expect(await session.focused()).toBe('Cancel');
    await session.page.keyboard.down('Shift');
    await session.page.keyboard.press('Tab');
    await session.page.keyboard.up('Shift');
    expect(await session.focused()).toBe('Activate');
    await session.page.keyboard.press('Enter');
    await daemon.harness.activated();
    await session.shows(/Activation of ocp 4\.13\.7 has begun/);
    await session.picture('activated');
  });

  it('rolls back to the release before', async () => {
    await daemon.harness.takeOut();
    daemon.harness.engine.commands.prove({ bundle: 'ocp@4.13.7' });
    daemon.harness.plug((await make('4.13.8', 8)).path);
    await session.click('Activate ocp 4.13.8');
    await session.inDialog('Activate');
    await daemon.harness.until(({ bundles }) =>
      bundles.some(({ version, current }) => version === '4.13.8' && current),
    );
    await session.go('');
    await session.click('Roll back ocp');
    await session.shows(/Now activated: ocp 4\.13\.8/);
    await session.inDialog('Roll back');
    await daemon.harness.until(({ bundles }) =>
      bundles.some(({ version, current }) => version === '4.13.7' && current),
    );
    await session.shows(/ocp 4\.13\.7\s+(proven|activated)/);
    await session.picture('rolled-back');
  });

  it.each([
    ['overview', /Releases in use/],
    ['releases', /Update graph of ocp/],
    ['history', /rollback/],
    ['doctor', /Report for support/],
    ['fleet', /Nodes|not in a fleet/],
  ])('has nothing that axe objects to, in light and dark, on a wide and a narrow screen: %s', async (tab, text) => {
    await session.go(tab);
    await session.shows(text);
    for (const style of ['light', 'dark'] as const) {
      for (const width of [1_280, 360]) {
        await session.resize(width, 900);
        await session.style(style);
        await session.picture(`${tab}-${style}-${width}`);
        expect(await session.findings(), `${tab} ${style} ${width}`).toEqual([]);
        expect(await session.overflow(), `${tab} ${style} ${width}`).toEqual([]);
        expect(await session.brokenWords(), `${tab} ${style} ${width}`).toEqual([]);
      }
    }
    await session.resize(1_280, 900);
    await session.style('light');
  });

  it('shows what the daemon wrote last while it does not run, and follows it again', async () => {
    await session.go('');
    await daemon.leave();
    await session.shows(/The daemon does not run\s+This is what it wrote last/);
    await session.shows(/ocp 4\.13\.7\s+(proven|activated)/);
    await session.picture('stored');
    expect(await session.findings()).toEqual([]);
    await session.click('Rescan');
    await session.inDialog('Rescan');
    await session.shows(/This was not done\s+The daemon does not run/);
    await session.inDialog('Cancel');
    await daemon.serve();
    await session.shows(/^(?!.*The daemon does not run)/s);
  });

  it('shows the history after a reload, and that the node is in no fleet', async () => {
    await session.go('history');
    await session.page.reload();
    await session.shows(/ocp 4\.13\.7 .* is proven|Activation of ocp 4\.13\.7/);
    await session.go('fleet');
    await session.shows(/This node is not in a fleet/);
    expect(await session.findings()).toEqual([]);
  });

  it('did nothing that its content security policy refuses', () => {
    expect(session.faults).toEqual([]);
  });
});
