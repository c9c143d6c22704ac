import { afterEach, describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../src/domain/model/bundle.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { NOON, POLICY, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** {@link NOON} is on a Tuesday. */
const TUESDAY = 1;
/** Tuesday 14:00 to 15:00. */
const AFTERNOON = { days: [TUESDAY], startMinute: 14 * 60, lengthMinutes: 60 };

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});
async function start(update: Partial<typeof POLICY.update>) {
  node = createFakeNode([], { update: { ...POLICY.update, ...update } });
  await node.start();
}
/** A window of one minute that is open now. */
const NOON_MINUTE = {
  strategy: 'window',
  windows: [{ days: [TUESDAY], startMinute: 12 * 60, lengthMinutes: 1 }],
} as const;
/** Another daemon on what the one before has stored. */
async function restart() {
  await node.stop();
  const before = node;
  node = createFakeNode([], { update: { ...POLICY.update, ...NOON_MINUTE } }, before.store);
  for (const [name, imageId] of before.runtime.images) node.runtime.images.set(name, imageId);
  node.clock.jump(before.clock.now() - NOON);
  await node.start();
}
/**
 * An activation begins in its window; the daemon stops when the window has closed and no tag has
 * moved yet.
 */
async function beginAndStop(): Promise<VerifiedBundle> {
  await start(NOON_MINUTE);
  const work = node.runtime.onPull;
  node.runtime.onPull = async (reference, signal) => {
    if (!reference.includes('@'))
      throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
    await work(reference, signal);
  };
  const bundle = verified();
  await plug(bundle);
  await node.clock.advance(2 * MINUTE);
  expect(entry()?.phase).toBe('ready');
  return bundle;
}
async function plug(...bundles: readonly VerifiedBundle[]) {
  node.plug('sdb1', ...bundles);
  await node.clock.advance(0);
}
const entry = () => node.engine.report()?.bundles[0];

describe('update.strategy', () => {
  it('window: a release is ready and pinned, waits for the window, and is activated as it opens', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON], time_zone: 'UTC' });
    await plug(verified());
    expect(entry()).toMatchObject({
      phase: 'ready',
      images: { total: 2, present: 2, pinned: 2 },
      activationHolds: [{ gate: 'window', code: 'window', releasedBy: 'time', until: '2026-03-10T14:00:00.000Z' }],
    });
    expect(node.statuses.at(-1)).toBe(
      `REMOVE THE STICK (A-08): ocp 4.13.7 is loaded, not activated: it waits for the next window, Tue 2026-03-10 14:00 (UTC). It is activated automatically; without waiting: 'stickpin activate ocp@4.13.7'.`,
    );
    expect(entry()?.reason?.message).toBe(
      `It is not activated yet: it waits for the next window, Tue 2026-03-10 14:00 (UTC). The window closes on Tue 2026-03-10 15:00. It is activated automatically when nothing holds it any more. To activate it anyway, run 'stickpin activate ocp@4.13.7' and confirm`,
    );
    await node.clock.advance(2 * HOUR - 1);
    expect(entry()?.phase).toBe('ready');
    await node.clock.advance(1);
    expect(entry()?.phase).toBe('activated');
  });

  it('window: shows the wall time of the configured zone, or of the node for localtime', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON], time_zone: 'localtime' });
    node.facts = { ...node.facts, timeZone: 'America/Sao_Paulo' };
    await plug(verified());
    expect(entry()?.reason?.message).toContain(
      'Tue 2026-03-10 14:00 (America/Sao_Paulo). The window closes on Tue 2026-03-10 15:00',
    );
    expect(entry()?.activationHolds).toMatchObject([{ until: '2026-03-10T17:00:00.000Z' }]);
  });

  it.each(['Mars/Olympus', '../../../etc/passwd'])(
    'window: is in UTC where the zone of the node is %s',
    async (timeZone) => {
      await start({ strategy: 'window', windows: [AFTERNOON], time_zone: 'localtime' });
      node.facts = { ...node.facts, timeZone };
      await plug(verified());
      expect(entry()?.reason?.message).toContain(
        'Tue 2026-03-10 14:00 (UTC). The window closes on Tue 2026-03-10 15:00',
      );
    },
  );

  it('window: the report lists the next three windows', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON], time_zone: 'Europe/Berlin' });
    expect(node.engine.report()?.windows).toEqual([
      {
        opensAt: '2026-03-10T13:00:00.000Z',
        closesAt: '2026-03-10T14:00:00.000Z',
        text: 'Tue 2026-03-10 14:00 to Tue 2026-03-10 15:00 (Europe/Berlin)',
      },
      {
        opensAt: '2026-03-17T13:00:00.000Z',
        closesAt: '2026-03-17T14:00:00.000Z',
        text: 'Tue 2026-03-17 14:00 to Tue 2026-03-17 15:00 (Europe/Berlin)',
      },
      {
        opensAt: '2026-03-24T13:00:00.000Z',
        closesAt: '2026-03-24T14:00:00.000Z',
        text: 'Tue 2026-03-24 14:00 to Tue 2026-03-24 15:00 (Europe/Berlin)',
      },
    ]);
  });

  it('immediate: the report lists no windows, since none is waited for', async () => {
    await start({ strategy: 'immediate', windows: [AFTERNOON] });
    expect(node.engine.report()?.windows).toEqual([]);
  });

  it('window: a release is activated at once inside of a window', async () => {
    await start({ strategy: 'window', windows: [{ ...AFTERNOON, startMinute: 11 * 60 + 30 }] });
    await plug(verified());
    expect(entry()?.phase).toBe('activated');
  });

  it('window: a clock that is changed has its effect within 30 s', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON] });
    await plug(verified());
    node.clock.jump(HOUR);
    await node.clock.advance(30_000);
    expect(entry()?.phase).toBe('ready');
    node.clock.jump(HOUR);
    await node.clock.advance(30_000);
    expect(entry()?.phase).toBe('activated');
  });

  it('window: a clock that can not be right holds a release, and is reported', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON] });
    node.facts = { ...node.facts, builtAt: NOON + 24 * HOUR };
    await plug(verified());
    await node.clock.advance(2 * HOUR);
    expect(entry()).toMatchObject({ phase: 'ready', reason: { code: 'clock' } });
    expect(node.statuses.at(-1)).toContain(
      'the clock of this node is wrong: it shows a time before 2026-03-11T12:00:00Z',
    );
    expect(entry()?.reason?.message).toContain(
      "the clock of this node is wrong: it shows a time before 2026-03-11T12:00:00Z. stickpin was built at that time. Until the clock is right, the windows of this node can't be judged",
    );
  });

  it.each([
    ['before a synchronised clock', 2 * HOUR, true, 'activated', []],
    ['before a clock that is not synchronised', 2 * HOUR, false, 'ready', ['clock']],
    ['more than a day before a synchronised clock', 25 * HOUR, true, 'ready', ['clock']],
  ] as const)('window: a bundle that was made %s', async (_, ahead, isSynchronised, phase, codes) => {
    await start({ strategy: 'window', windows: [{ ...AFTERNOON, startMinute: 0, lengthMinutes: 24 * 60 }] });
    // It may have been adopted while the clock was not synchronised.
    node.clockSynchronised = async () => false;
    await plug(verified({ created: new Date(NOON + ahead).toISOString() }));
    expect(entry()?.activationHolds?.map(({ code }) => code)).toEqual(['clock']);
    node.clockSynchronised = async () => isSynchronised;
    await node.clock.advance(30_000);
    expect(entry()?.phase).toBe(phase);
    expect(entry()?.activationHolds?.map(({ code }) => code) ?? []).toEqual(codes);
  });

  it('window: a clock that differs from a bundle by more than a day, though it is synchronised, is told', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON] });
    node.clockSynchronised = async () => false;
    await plug(verified({ created: '2026-03-12T12:00:00Z' }));
    node.clockSynchronised = async () => true;
    await node.clock.advance(30_000);
    expect(node.statuses.at(-1)).toContain(
      "this node's synchronised clock is over 24 h behind a bundle made on 2026-03-12T12:00:00Z",
    );
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      /of the same stream, so one of the two clocks is wrong\. .*Check what the clock is synchronised with/,
    );
  });

  it('window: a person may activate a release outside of a window, after a confirmation', async () => {
    await start({ strategy: 'window', windows: [AFTERNOON] });
    await plug(verified());
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      /it waits for the next window, Tue 2026-03-10/,
    );
    node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await node.clock.advance(0);
    expect(entry()?.phase).toBe('activated');
  });

  it('window: an activation that has begun goes on when the window closes', async () => {
    await start({ strategy: 'window', windows: [{ ...AFTERNOON, startMinute: 12 * 60, lengthMinutes: 1 }] });
    const work = node.runtime.onPull;
    let isBroken = true;
    node.runtime.onPull = async (reference, signal) => {
      if (isBroken && !reference.includes('@'))
        throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
      await work(reference, signal);
    };
    await plug(verified());
    await node.clock.advance(2 * MINUTE);
    expect(entry()?.phase).toBe('ready');
    isBroken = false;
    await node.clock.advance(10 * MINUTE);
    expect(entry()?.phase).toBe('activated');
  });

  it('window: an activation that has begun is finished by the next daemon, though its window has closed', async () => {
    await beginAndStop();
    await restart();
    await node.clock.advance(MINUTE);
    expect(entry()).toMatchObject({ phase: 'activated' });
  });

  it('window: a release that has not begun waits for its window after a restart', async () => {
    await start(NOON_MINUTE);
    await node.clock.advance(2 * MINUTE);
    await plug(verified());
    await restart();
    await node.clock.advance(MINUTE);
    expect(entry()).toMatchObject({ phase: 'ready', activationHolds: [{ code: 'window' }] });
  });

  it('window: a begun activation that a person rejects is given up, and waits for its window once it is approved', async () => {
    const bundle = await beginAndStop();
    expect(node.store.load().bundles[0]?.activationBegunAt).toBeDefined();
    node.engine.commands.reject({ bundle: bundle.bundleId });
    await node.clock.advance(MINUTE);
    expect(node.store.load().bundles[0]?.activationBegunAt).toBeUndefined();
    node.engine.commands.approve({ bundle: bundle.bundleId });
    await node.clock.advance(MINUTE);
    expect(entry()?.phase).toBe('ready');
    expect(entry()?.activationHolds?.[0]?.code).toBe('window');
  });

  it('manual: a release waits for a person, who need not confirm', async () => {
    await start({ strategy: 'manual' });
    await plug(verified());
    await node.clock.advance(24 * HOUR);
    expect(entry()).toMatchObject({ phase: 'ready', activationHolds: [{ gate: 'schedule', code: 'engine/manual' }] });
    expect(entry()?.activationHolds?.[0]?.message).toBe(
      'the setting update.strategy is "manual" on this node. An administrator activates it',
    );
    expect(node.statuses.at(-1)).toContain("To activate it: 'stickpin activate ocp@4.13.7'.");
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    expect(entry()?.phase).toBe('activated');
  });

  it('window: a release whose schedule is manual waits for a person all the same', async () => {
    await start({ strategy: 'window', windows: [{ ...AFTERNOON, startMinute: 0, lengthMinutes: 24 * 60 }] });
    await plug(verified({ schedule: 'manual' }));
    await node.clock.advance(HOUR);
    expect(entry()).toMatchObject({ phase: 'ready', activationHolds: [{ code: 'engine/manual' }] });
  });
});

describe('a rollout', () => {
  const start10 = new Date(NOON).toISOString();
  const release = verified({ update: { rollout: { start: start10, durationMinutes: 100 } } });

  it.each([
    ['update.rollout_wariness', { rollout_wariness: 0.25 }, 25 * MINUTE],
    ['a hash of the machine id', {}, Math.ceil(0.896828278181118 * 100 * MINUTE)],
  ])('reaches the node at its turn, by %s', async (_, update, turn) => {
    await start(update);
    await plug(release);
    await node.clock.advance(turn - 1);
    expect(entry()).toMatchObject({ phase: 'ready', activationHolds: [{ code: 'rule/rollout', releasedBy: 'time' }] });
    await node.clock.advance(1);
    expect(entry()?.phase).toBe('activated');
  });

  it('reaches a node without a machine id last, and says why', async () => {
    await start({});
    node.facts = { ...node.facts, machineId: undefined };
    await plug(release);
    expect(entry()?.reason?.message).toContain(
      'on this node from 2026-03-10T13:40:00Z. The wariness of this node is 1. It is that of a node whose /etc/machine-id has no usable id: set update.rollout_wariness to another one',
    );
    await node.clock.advance(100 * MINUTE);
    expect(entry()?.phase).toBe('activated');
  });

  it('that ends below 100 % never reaches the other nodes: a person decides', async () => {
    await start({ rollout_wariness: 0.5 });
    await plug(verified({ update: { rollout: { start: start10, startPercentage: 0.1 } } }));
    await node.clock.advance(24 * HOUR);
    expect(entry()).toMatchObject({
      phase: 'ready',
      activationHolds: [{ code: 'rule/rollout', releasedBy: 'person' }],
    });
    expect(entry()?.reason?.message).toContain(
      'is for 10 % of the nodes, and this node is not one of them. The wariness of this node is 0.5',
    );
  });
});
