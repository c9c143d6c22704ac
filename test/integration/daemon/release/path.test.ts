import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { SampleBundle, SampleBundleOptions } from '../../../support/bundles/sample-bundle.ts';
import { makeNotice } from '../../../support/bundles/signed-payload.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

describe('a daemon that goes through the releases of a stream', () => {
  const root = folderForEach();
  let factory: string;
  let harness: DaemonHarness;

  beforeEach(() => {
    factory = root;
  });

  /** Release `1.N.0` with sequence N. */
  const release = (minor: number, over: Omit<SampleBundleOptions, 'dir'> = {}): Promise<SampleBundle> =>
    harness.make({ version: `1.${minor}.0`, sequence: minor, created: '2019-01-01T00:00:00Z', ...over });
  const start = async (settings: SettingsOverrides = {}) => {
    harness = await createDaemonHarness({ settings });
    await harness.start();
    await harness.until(() => true);
  };
  const sticks = () => harness.report().media.filter(({ medium }) => medium.endsWith('/stick')).length;
  const unplug = async () => {
    harness.unplug();
    await harness.until(() => sticks() === 0);
  };
  /** Another stick, in place of the one that is plugged in. */
  const plug = async (...paths: readonly string[]) => {
    if (sticks() > 0) await unplug();
    harness.plug(...paths);
  };
  /** Another node, and other bundles. */
  const anew = async (settings: SettingsOverrides) => {
    await harness.dispose();
    factory = mkdtempSync(join(root, 'anew-'));
    await start(settings);
  };
  const phases = ({ bundles }: StatusReport) =>
    Object.fromEntries(bundles.map(({ version, phase, current }) => [version, `${phase}${current ? '*' : ''}`]));
  const untilPhases = (wanted: Readonly<Record<string, string>>) =>
    harness.until((report) => Object.entries(wanted).every(([version, phase]) => phases(report)[version] === phase));
  const holds = (version: string) =>
    harness
      .report()
      .bundles.find((one) => one.version === version)
      ?.activationHolds?.map(({ code }) => code);

  it('activates a barrier, proves it, and continues to the next release without the stick', async () => {
    await start();
    await plug((await release(2)).path);
    await untilPhases({ '1.2.0': 'activated*' });
    await unplug();
    const barrier = await release(3, { update: { barrier: { reason: 'storage is migrated' } } });
    await plug(barrier.path, (await release(4)).path);
    const held = await untilPhases({ '1.3.0': 'activated*', '1.4.0': 'ready' });
    expect(held.bundles.at(-1)?.reason?.message).toMatch(/barrier 1\.3\.0.*storage is migrated/);
    await unplug();
    await harness.restart();
    await untilPhases({ '1.3.0': 'activated*', '1.4.0': 'ready' });
    // It is refused until the images are known to be on the disk, which a start does not know.
    await eventually(() => harness.engine.commands.prove({ bundle: 'ocp@1.3.0' }));
    await untilPhases({ '1.3.0': 'proven', '1.4.0': 'activated*' });
  });

  it.each(['name', 'digest'] as const)(
    'does not go past a barrier by itself that a person rejects by its %s, also after a restart',
    async (by) => {
      await start();
      const first = await release(2);
      await plug(first.path);
      await untilPhases({ '1.2.0': 'activated*' });
      harness.engine.commands.prove({ bundle: first.bundleId });
      const barrier = await release(3, { update: { barrier: { reason: 'storage is migrated' } }, schedule: 'manual' });
      await plug(barrier.path, (await release(4)).path);
      await untilPhases({ '1.3.0': 'ready', '1.4.0': 'ready' });
      await unplug();
      const said = harness.engine.commands.reject({ bundle: by === 'name' ? 'ocp@1.3.0' : barrier.bundleId });
      expect(said).toContain('It is a barrier of its stream: later releases stay held, until a person activates one');
      const why = /barrier 1\.3\.0 must be activated and proven first .*rejected or not trusted/;
      const isHeld = ({ bundles }: StatusReport) => why.test(bundles.at(-1)?.reason?.message ?? '');
      await harness.until(isHeld);
      await harness.rounds();
      await harness.restart();
      await harness.until(isHeld);
      await harness.rounds();
      expect(phases(harness.report())).toMatchObject({ '1.2.0': 'proven*', '1.4.0': 'ready' });
      expect(() => harness.engine.commands.activate({ bundle: 'ocp@1.4.0' })).toThrow(why);
      harness.engine.commands.activate({ bundle: 'ocp@1.4.0', override: true });
      await untilPhases({ '1.4.0': 'activated*' });
    },
  );

  it('rejects a notice with rules of a release, and goes on as if it was not there', async () => {
    await start();
    const first = await release(2);
    await plug(first.path);
    await untilPhases({ '1.2.0': 'activated*' });
    harness.engine.commands.prove({ bundle: first.bundleId });
    const update = { barrier: { reason: 'a step' } };
    const advisories = [{ version: '1.1.0', deadend: true, reason: 'it loses data' }];
    const notice = makeNotice(factory, { version: '1.3.0', sequence: 3, update, advisories }, [harness.key]);
    await plug(notice.path, (await release(4)).path);
    const { rejected, notices } = await untilPhases({ '1.4.0': 'activated*' });
    expect(rejected.map(({ reason }) => reason.message)).toEqual([
      expect.stringContaining('update.barrier: a bundle without images has no release'),
    ]);
    expect(notices).toEqual([]);
  });

  it('does not leave a dead end by itself that a person rejects', async () => {
    await start();
    const end = await release(2, { update: { deadend: { reason: 'it loses data' } } });
    await plug(end.path);
    await untilPhases({ '1.2.0': 'activated*' });
    expect(harness.engine.commands.reject({ bundle: 'ocp@1.2.0' })).toContain('It is a dead end of its stream');
    await plug((await release(3)).path);
    await untilPhases({ '1.3.0': 'ready' });
    await harness.rounds();
    expect(holds('1.3.0')).toEqual(['rule/deadend']);
  });

  it('holds a release whose rule "from" excludes the current one, and one behind a dead end that was declared later', async () => {
    await start();
    await plug((await release(2)).path);
    await untilPhases({ '1.2.0': 'activated*' });
    await plug((await release(4, { update: { from: '1.3.x' } })).path);
    const held = await untilPhases({ '1.4.0': 'ready' });
    expect(held.status).toMatch(/rule "from" needs 1\.3\.x, and the current release is 1\.2\.0/);
    const advisories = [{ version: '1.2.0', deadend: true, reason: 'it loses data' }];
    const notice = await harness.make({ version: '2026.1.1', sequence: 90, images: [], advisories });
    await plug(notice.path);
    await harness.until(({ notices }) => notices.length === 1);
    await plug((await release(5)).path);
    await untilPhases({ '1.5.0': 'ready' });
    expect(holds('1.5.0')).toEqual(['rule/deadend']);
    expect(holds('1.4.0')).toEqual(['rule/from', 'rule/deadend']);
    await harness.restart();
    await untilPhases({ '1.2.0': 'activated*', '1.5.0': 'ready' });
  });

  it('activates no older release, unless the settings allow it', async () => {
    await start();
    await plug((await release(5)).path);
    await untilPhases({ '1.5.0': 'activated*' });
    await plug((await release(4, { sequence: 6 })).path, (await release(3)).path);
    const { rejected } = await untilPhases({ '1.4.0': 'ready' });
    expect(holds('1.4.0')).toEqual(['rule/downgrade']);
    expect(rejected.map(({ name, reason }) => [name, reason.code])).toEqual([['ocp@1.3.0', 'bundle/sequence']]);
    await anew({ update: { allow_downgrade: true } });
    await plug((await release(5)).path);
    await untilPhases({ '1.5.0': 'activated*' });
    await plug((await release(3)).path);
    await untilPhases({ '1.3.0': 'activated*' });
  });

  it('activates no release after its end of life, unless the settings allow it', async () => {
    const ended = { update: { endOfLife: '2020-01-01T00:00:00Z' } };
    await start();
    await plug((await release(3, ended)).path);
    await untilPhases({ '1.3.0': 'ready' });
    expect(holds('1.3.0')).toEqual(['rule/end-of-life']);
    await anew({ update: { allow_end_of_life: true } });
    await plug((await release(4, ended)).path);
    await untilPhases({ '1.4.0': 'activated*' });
  });

  it('does not activate a rolled back release again, also after a restart, but activates a newer one', async () => {
    await start();
    await plug((await release(2)).path);
    await untilPhases({ '1.2.0': 'activated*' });
    harness.engine.commands.prove({ bundle: 'ocp@1.2.0' });
    await plug((await release(3)).path);
    await untilPhases({ '1.3.0': 'activated*' });
    expect(harness.engine.commands.rollback({ stream: 'ocp' })).toBe('ocp@1.2.0');
    await untilPhases({ '1.2.0': 'activated*', '1.3.0': 'activated' });
    await harness.restart();
    await harness.until(() => holds('1.3.0')?.includes('engine/denied') === true);
    await plug((await release(4)).path);
    await untilPhases({ '1.4.0': 'activated*' });
  });

  it('applies no path rules while the current release is unknown, unless the settings name it', async () => {
    const rules = { update: { from: '1.2.x' } };
    await start();
    await plug((await release(3, rules)).path);
    await untilPhases({ '1.3.0': 'activated*' });
    await anew({ streams: { ocp: { current: '1.1.0' } } });
    await plug((await release(4, rules)).path);
    await harness.until(() => holds('1.4.0')?.includes('rule/from') === true);
    await untilPhases({ '1.4.0': 'ready' });
    expect(holds('1.4.0')).toEqual(['rule/from']);
  });
});
