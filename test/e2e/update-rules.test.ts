import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { programLayer } from '../support/bundles/program-image.ts';
import { sampleKey } from '../support/bundles/sample-bundle.ts';
import { makeRunningRelease, type RunningRelease } from '../support/daemon/running-release.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { type MachinePods, startContainerdWithPods } from './machine/product/pods.ts';
import { makeStick } from './machine/qemu/stick.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

const configuration = `[update]
strategy = "window"
[[update.windows]]
days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
start_time = "03:00"
length_minutes = 60

[streams.ocp]
current = "1.0.0"

[lifecycle]
soak = "5 s"
`;

/**
 * One stick with three releases, the second one a barrier, and a window of an hour a night. Tests
 * lean on the ones before.
 */
describeMachine('a node with rules for its updates', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const startedAt = Date.now();
  const directory = folderForAll();
  let pods: MachinePods;
  let barrier: RunningRelease;
  let last: RunningRelease;

  beforeAll(async () => {
    const program = await programLayer();
    const options = { dir: join(directory, 'medium/stickpin'), keys: [key] };
    await makeRunningRelease(1, program, options);
    const update = { barrier: { reason: 'It converts the database.' } };
    barrier = await makeRunningRelease(2, program, { ...options, update });
    last = await makeRunningRelease(3, program, options);
  });

  /**
   * Sets the guest's clock to `HH:MM` (UTC) of a day to come. stickpin would notice it, but later.
   */
  async function setClock(daysAhead: number, time: string): Promise<void> {
    const date = new Date(startedAt + daysAhead * DAY_MS).toISOString().slice(0, 10);
    await machine().output(`date --utc --set='${date} ${time}'`);
    await node.rescan();
  }

  const entryOf = ({ bundles }: StatusReport, version: string) => bundles.find((entry) => entry.version === version);
  const holdsOf = (report: StatusReport, version: string) =>
    entryOf(report, version)?.activationHolds?.map(({ code }) => code) ?? [];
  const isHeldBy = (report: StatusReport, version: string, code: string) => holdsOf(report, version).join() === code;
  const become = (what: string, phases: Readonly<Record<string, string>>, isAlso = (_: StatusReport) => true) =>
    node.until(what, (report) => {
      const isSo = Object.entries(phases).every(([version, phase]) => entryOf(report, version)?.phase === phase);
      return report.runtime.reachable && report.operation === 'idle' && isSo && isAlso(report);
    });

  test('outside of the window all releases are preloaded, the stick may be removed, and nothing is activated', async () => {
    pods = await startContainerdWithPods(machine());
    await machine().output(`date --utc --set='${new Date(startedAt + DAY_MS).toISOString().slice(0, 10)} 12:00'`);
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem }, configuration });
    const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'medium') });
    const plugged = await machine().plug(stick);
    const phases = { '1.1.0': 'ready', '1.2.0': 'ready', '1.3.0': 'ready' };
    const report = await become('all three to be ready', phases, (now) => {
      const isWhole = now.bundles.every(({ images: { present, pinned } }) => present === 3 && pinned === 3);
      return isWhole && isHeldBy(now, '1.2.0', 'window') && holdsOf(now, '1.3.0').includes('rule/barrier');
    });
    await plugged.unplug();
    const night = new Date(startedAt + 2 * DAY_MS).toISOString().slice(0, 10);
    expect(entryOf(report, '1.2.0')?.activationHolds?.[0]?.until).toBe(`${night}T03:00:00.000Z`);
  });

  test('in the window the barrier is activated, and the next release waits until the barrier is proven', async () => {
    await setClock(2, '03:00:05');
    const phases = { '1.2.0': 'activated', '1.3.0': 'ready' };
    const report = await become('the barrier to be activated', phases, (now) =>
      holdsOf(now, '1.3.0').includes('rule/barrier'),
    );
    expect(entryOf(report, '1.1.0')?.phase).not.toBe('activated');
  });

  test('a barrier that is proven after the window has closed releases the next one, which waits for the next window', async () => {
    await setClock(2, '04:00:05');
    await pods.run(barrier.pods);
    await node.rescan();
    const phases = { '1.2.0': 'proven', '1.3.0': 'ready' };
    await become('the barrier to be proven', phases, (now) => isHeldBy(now, '1.3.0', 'window'));
  });

  test('in the next window the last release is activated without its stick, and is proven', async () => {
    await setClock(3, '03:00:05');
    await become('the last release to be activated', { '1.2.0': 'proven', '1.3.0': 'activated' });
    await pods.run(last.pods);
    await node.rescan();
    await become('the last release to be proven', { '1.2.0': 'superseded', '1.3.0': 'proven' });
  });
});
