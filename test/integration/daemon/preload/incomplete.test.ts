import { beforeEach, describe, expect, it } from 'vitest';
import { makeSpreadBundle } from '../../../support/bundles/spread-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createShiftedClock, type ShiftedClock } from '../../../support/daemon/shifted-clock.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
let clock: ShiftedClock;
let node: DaemonHarness;
const factory = folderForEach();
let volumes: readonly string[];

beforeEach(async () => {
  clock = createShiftedClock();
  const facts = { builtAt: Date.now() - 100 * DAY_MS, machineId: 'a'.repeat(32), timeZone: 'UTC' };
  node = await createDaemonHarness({ clock, boot: clock.boot, facts });
  volumes = await makeSpreadBundle({ folder: factory, key: node.key, volumeBytes: 4.5 * 1024 * 1024 });
});

const isStick = ({ medium }: { readonly medium: string }) => medium.endsWith('/stick');
/** Plugs one of the sticks in, and waits until it is read. */
const plug = async (at: number) => {
  node.plug(volumes[at] ?? '');
  await node.until(({ media }) => media.some((one) => isStick(one) && one.bundles === 1));
};
const unplug = async () => {
  node.unplug();
  await node.until(({ media }) => !media.some(isStick));
};
/** The plugged stick has given what it has. */
const untilGiven = () =>
  node.until(({ bundles, status }) => bundles[0]?.hold === 'media' && / lacks \d+ blobs? on /.test(status));

/** The first of the sticks comes and goes. */
const takeFirst = async () => {
  await plug(0);
  await untilGiven();
  await unplug();
};

describe('a release of which only the first of three sticks came', () => {
  it('waits for the others for 14 days, also when the clock is set meanwhile', async () => {
    clock.jump(-21 * DAY_MS);
    await node.start();
    await takeFirst();
    await node.rounds();
    clock.jump(21 * DAY_MS);
    await node.rounds(3);
    expect(node.report().bundles[0]).toMatchObject({ phase: 'held', hold: 'media' });
    clock.pass(14 * DAY_MS);
    await node.until(({ bundles }) => bundles[0]?.phase === 'retired');
  });

  it('that is retired goes on with the others one after the other, once a person asks for it', async () => {
    await node.start();
    await takeFirst();
    // What was seen of a medium is not known after a restart: only the clock counts.
    await node.stop();
    clock.pass(15 * DAY_MS);
    await node.start();
    await node.until(({ bundles }) => bundles[0]?.phase === 'retired');
    const activate = () => node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    expect(activate).toThrow(/it is retired and \d of its images are gone; plug in its stick/);
    await plug(1);
    activate();
    await untilGiven();
    await untilGiven();
    await unplug();
    await plug(2);
    await untilGiven();
    await unplug();
    await plug(0);
    const done = await node.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(done.bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
  });
});
