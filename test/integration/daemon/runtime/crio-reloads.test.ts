import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import type { CrioDouble } from '../../../support/crio-double/start-crio-double.ts';
import type { DaemonHarness, SettingsOverrides } from '../../../support/daemon/daemon-harness.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { mounting, mountSmallDisk } from '../../../support/files/small-disk.ts';
import { freePort } from '../../../support/free-port.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap', mounting))('reloads of CRI-O', { timeout: 60_000 }, () => {
  let bundle: SampleBundle;
  let double: CrioDouble;
  let harness: DaemonHarness;
  let reloads: number;
  let failure: Error | undefined;

  beforeEach(async () => {
    reloads = 0;
    failure = undefined;
  });

  /** A daemon as systemd runs it: the port stays the same, and the mirrors stay at its end. */
  async function start(settings: SettingsOverrides = {}, gate?: StickGate): Promise<void> {
    const node = await createCrioNode(
      { registry: { listen: `127.0.0.1:${await freePort()}` }, ...settings },
      {},
      {
        keepsMirrors: true,
        ...(gate !== undefined && { watchBundle: gate.watchBundle }),
        reload: async (running, announce) => {
          if (failure !== undefined) throw failure;
          reloads += 1;
          await running.reloadAndWait();
          announce();
        },
      },
    );
    ({ harness } = node);
    double = node.double();
    bundle = await harness.make();
    await harness.start();
  }
  const become = (phase: string) =>
    harness.until(({ bundles, operation }) => bundles[0]?.phase === phase && operation === 'idle');
  /** Until the test that a daemon makes when it has nothing else to do. */
  const isAtRest = ({ conditions }: StatusReport) =>
    conditions.some(({ type, status }) => type === 'PullsAnswered' && status === 'True');
  const restarted = async () => {
    await harness.restart();
    await harness.until(isAtRest);
  };

  it('are one for a preload with its activation, and none for a restart of the daemon', async () => {
    await start();
    harness.plug(bundle.path);
    await become('activated');
    await harness.until(isAtRest);
    expect(reloads).toBe(1);
    await restarted();
    await restarted();
    expect(reloads).toBe(1);
  });

  it('are none for a restart of the daemon in mid-preload, and one when the stick is not there any more', async () => {
    const gate = createStickGate();
    await start({}, gate);
    const [layer] = bundle.contents.layers;
    if (layer !== undefined) gate.hold(layer.digest, 0);
    harness.plug(bundle.path);
    await gate.reached();
    for (let restarts = 0; restarts < 2; restarts += 1) {
      await harness.restart();
      await harness.until(({ bundles: [one] }) => one?.phase === 'preloading' && one.media.length > 0);
      await harness.rounds();
    }
    expect(reloads).toBe(1);
    await harness.stop();
    harness.unplug();
    await harness.start();
    await harness.until(({ bundles: [one] }) => one?.hold === 'media');
    await harness.rounds();
    expect(reloads).toBe(2);
    gate.release();
  });

  it('are made up for by the next daemon, once', async () => {
    await start();
    harness.plug(bundle.path);
    await become('activated');
    await harness.until(isAtRest);
    await harness.stop();
    failure = new AppError({ code: 'host/unit', message: 'systemd is busy', disposition: 'retry' });
    // Stands behind our mirror, so that it is written anew.
    const theirs = '[[registry]]\nprefix = "quay.example.com"\nlocation = "mirror.example.com"\n';
    writeFileSync(join(double.dirs.registriesDropIns, '50-theirs.conf'), theirs);
    await harness.start();
    await expect
      .poll(() => harness.log.lines.some(({ message }) => message.includes('systemd is busy')), { timeout: 60_000 })
      .toBe(true);
    await harness.stop();
    expect(reloads).toBe(1);
    failure = undefined;
    await harness.start();
    await harness.until(isAtRest);
    expect(reloads).toBe(2);
    await restarted();
    expect(reloads).toBe(2);
  });

  it('are one for changed pins while the mirrors can not be written, and one for a mark that was left', async () => {
    const disk = mountSmallDisk('tmpfs', 64 * 1024);
    onTestFinished(disk.dispose);
    disk.readOnly();
    await start({ crio: { registries_dir: disk.path } });
    harness.plug(bundle.path);
    await harness.until(({ status }) => status.includes('99-stickpin.conf could not be made'));
    await expect.poll(() => reloads, { timeout: 60_000 }).toBe(1);
    const isTried = () => harness.until(({ status }) => status.includes('could not be made'));
    for (let tries = 0; tries < 3; tries += 1) {
      await harness.rounds();
      await isTried();
    }
    expect(reloads).toBe(1);
    await harness.stop();
    writeFileSync(join(harness.settings.paths.run_dir, 'crio-reload-owed'), 'left by a start before');
    await harness.start();
    await expect.poll(() => reloads, { timeout: 60_000 }).toBe(2);
    await harness.rounds();
    await isTried();
    expect(reloads).toBe(2);
  });

  it('are no more for a release that is activated by hand', async () => {
    await start({ update: { strategy: 'manual' } });
    harness.plug(bundle.path);
    await become('ready');
    await expect.poll(() => harness.log.lines.filter(({ message }) => message.startsWith('Pulled'))).toHaveLength(2);
    // A round passes in which nothing is left to do.
    harness.unplug();
    await harness.until(({ bundles: [one] }) => one?.media.length === 0);
    harness.engine.commands.activate({ bundle: bundle.bundleId });
    await become('activated');
    await harness.until(isAtRest);
    expect(reloads).toBe(1);
  });

  it('are one for the retirement of a release, whose pins and mirrors go together', async () => {
    await start({ lifecycle: { keep: 1 } });
    const prove = async ({ bundleId, payload: { name, version } }: SampleBundle) => {
      harness.engine.commands.prove({ bundle: `${name}@${version}` });
      await harness.until(({ bundles, operation }) => {
        const found = bundles.find((one) => one.bundleId === bundleId);
        return operation === 'idle' && found?.phase === 'proven';
      });
    };
    harness.plug(bundle.path);
    await become('activated');
    await prove(bundle);
    harness.unplug();
    await harness.until(isAtRest);
    expect(reloads).toBe(1);
    const next = await harness.make({
      version: '4.13.8',
      sequence: 2,
      images: [{ reference: 'quay.example.com/next/etcd:2', image: sampleImage({ seed: 'next' }) }],
    });
    harness.plug(next.path);
    const isNext = ({ bundles, operation }: StatusReport) =>
      operation === 'idle' && bundles.find(({ bundleId }) => bundleId === next.bundleId)?.phase === 'activated';
    await harness.until((report) => isNext(report) && isAtRest(report));
    expect(reloads).toBe(2);
    await prove(next);
    await harness.until(({ bundles }) =>
      bundles.some(({ version, phase }) => version === '4.13.7' && phase === 'retired'),
    );
    const mirrors = () => readFileSync(join(double.dirs.registriesDropIns, '99-stickpin.conf'), 'utf8');
    await expect.poll(mirrors).not.toContain('quay.example.com/ocp');
    expect(mirrors()).toContain('quay.example.com/next');
    await harness.rounds();
    await harness.until(isAtRest);
    expect(reloads).toBe(3);
    await restarted();
    expect(reloads).toBe(3);
  });

  it('are no more for a release that waits for an approval', async () => {
    await start({ trust: { require: 'both' } });
    harness.plug(bundle.path);
    await harness.until(({ status }) => status.includes('waits for approval'));
    expect(reloads).toBe(0);
    harness.engine.commands.approve({ bundle: bundle.bundleId });
    await become('activated');
    await harness.until(isAtRest);
    expect(reloads).toBe(1);
  });
});
