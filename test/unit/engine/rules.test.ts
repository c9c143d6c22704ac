import { afterEach, describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../src/domain/model/bundle.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { digestOf, NOON, stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const at = (time: number) => new Date(time).toISOString();

const STABLE = (name: string) => `quay.example.com/ocp/${name}:stable`;
const ref = (name: string, sequence: number) => `quay.example.com/ocp/${name}@${digestOf(`image ${name}-${sequence}`)}`;

/**
 * `ocp 4.13.N` of sequence N, with images of its own and a tag `stable` that all releases share.
 */
const release = (sequence: number, over: Parameters<typeof verified>[0] = {}): VerifiedBundle =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: ['os', `e${sequence}`], [`api-${sequence}`]: ['os', `a${sequence}`] },
    imageOver: {
      [`etcd-${sequence}`]: { component: 'etcd', reference: ref('etcd', sequence), tags: [STABLE('etcd')] },
      [`api-${sequence}`]: { component: 'api', reference: ref('api', sequence), tags: [STABLE('api')] },
    },
    ...over,
  });
/** Reaches all nodes at once. */
const rollout = (ms: number) => ({ update: { rollout: { start: at(NOON + ms), startPercentage: 1 } } });
const FROM = { update: { from: '>=99.0.0' } };

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});
/** The node is at a release of the stream that stickpin did not bring. */
const AT_6 = { streams: { ocp: { current: '4.13.6' } } };
const start = async (made = createFakeNode([], AT_6)) => {
  node = made;
  await node.start();
};
const plug = async (label: string, ...bundles: readonly VerifiedBundle[]) => {
  node.plug(label, ...bundles);
  await node.clock.advance(0);
};
const phases = () => Object.fromEntries(node.engine.report()?.bundles.map((one) => [one.version, one.phase]) ?? []);
const entry = (version: string): StatusReport['bundles'][number] | undefined =>
  node.engine.report()?.bundles.find((one) => one.version === version);
const stable = (name: string) => node.runtime.images.get(STABLE(name));
/** Another daemon on what the one before has stored. */
async function restart(clockJumpMs = 0) {
  await node.stop();
  const before = node;
  const next = createFakeNode([], AT_6, before.store);
  for (const [name, imageId] of before.runtime.images) next.runtime.images.set(name, imageId);
  for (const [id, container] of before.runtime.running) next.runtime.running.set(id, container);
  next.clock.jump(before.clock.now() - NOON + clockJumpMs);
  await start(next);
}

describe('a release whose activation its rules hold', () => {
  it('is ready and pinned; STATUS, list, its conditions and the journal name the rule; no tag moves', async () => {
    await start();
    await plug('sdb1', release(7, FROM));
    await node.clock.advance(60 * MINUTE);
    expect(entry('4.13.7')).toMatchObject({
      phase: 'ready',
      images: { total: 2, present: 2, pinned: 2 },
      current: false,
      reason: { code: 'rule/from', message: expect.stringContaining('>=99.0.0') },
      activationHolds: [{ code: 'rule/from', releasedBy: 'person' }],
      rules: [{ rule: 'from', value: '>=99.0.0', effect: 'holds-activation' }],
    });
    expect(node.statuses.at(-1)).toBe(
      `REMOVE THE STICK (A-02): ocp 4.13.7 is loaded, not activated: its rule "from" needs >=99.0.0, and the current release is 4.13.6. Call support. To activate it anyway: 'stickpin activate ocp@4.13.7'.`,
    );
    const active = entry('4.13.7')?.conditions?.find(({ type }) => type === 'Active');
    expect(active).toMatchObject({ status: 'False', reason: 'ActivationHeld' });
    expect(node.store.rows.filter(({ kind }) => kind === 'activationHeld').map(({ message }) => message)).toEqual([
      expect.stringMatching(/^ocp 4\.13\.7 is ready\. It is not activated automatically: .*>=99\.0\.0/),
    ]);
    expect(node.store.rows.filter(({ kind }) => kind === 'bundleReady')).toHaveLength(1);
    expect(stable('etcd')).toBeUndefined();
  });

  it('is activated on request after a confirmation, which outlives a restart', async () => {
    await start();
    await plug('sdb1', release(7, FROM));
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      expect.objectContaining({ code: 'engine/activation-held', message: expect.stringContaining('>=99.0.0') }),
    );
    await node.clock.advance(5 * MINUTE);
    expect(phases()).toEqual({ '4.13.7': 'ready' });
    node.runtime.onPull = async () => {
      throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
    };
    node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await node.clock.advance(0);
    expect(phases()).toEqual({ '4.13.7': 'ready' });
    await restart();
    await plug('sdb1', release(7, FROM));
    expect(phases()).toEqual({ '4.13.7': 'activated' });
    expect(entry('4.13.7')).toMatchObject({ current: true });
    expect(entry('4.13.7')?.reason).toBeUndefined();
    expect(node.store.rows.find(({ kind }) => kind === 'activation-requested')?.message).toMatch(
      /^Activation of ocp 4\.13\.7 was asked for and confirmed, although its rule "from" .*>=99\.0\.0/,
    );
  });

  it('continues automatically when the rollout is over, also while nothing else happens', async () => {
    await start();
    await plug('sdb1', release(7, rollout(10 * MINUTE + 123)));
    expect(entry('4.13.7')).toMatchObject({
      reason: { code: 'rule/rollout', message: expect.stringContaining('2026-03-10T12:10:00.123Z') },
      activationHolds: [{ releasedBy: 'time', until: '2026-03-10T12:10:00.123Z' }],
    });
    await node.clock.advance(10 * MINUTE);
    expect(phases()).toEqual({ '4.13.7': 'ready' });
    await node.clock.advance(123);
    expect(phases()).toEqual({ '4.13.7': 'activated' });
  });

  it('follows a wall clock that jumps, and does not fail with an absurd one', async () => {
    await start();
    node.clockSynchronised = async () => false;
    await plug('sdb1', release(7, rollout(24 * 60 * MINUTE)));
    for (const ms of [-NOON, -8e15, 8e15 - 1]) {
      node.clock.jump(ms);
      await node.clock.advance(MINUTE);
      node.clock.jump(-ms);
    }
    await node.clock.advance(MINUTE);
    expect(Object.keys(phases())).toEqual(['4.13.7']);
    expect(node.log.lines.filter(({ message }) => /A round failed/.test(message))).toEqual([]);
  });

  it('reports that its rules were judged with a clock that is not synchronised', async () => {
    await start();
    node.clockSynchronised = async () => false;
    await plug('sdb1', release(7, rollout(MINUTE)));
    expect(entry('4.13.7')?.reason?.message).toContain("This node's clock is not synchronised");
    await node.clock.advance(MINUTE);
    expect(phases()).toEqual({ '4.13.7': 'activated' });
  });

  it('is held while the clock is before the time of its bundle, and other releases are not', async () => {
    await start();
    node.clockSynchronised = async () => false;
    node.clock.jump(-NOON);
    const tools = release(1, { name: 'tools', images: { shell: ['shell'] }, imageOver: {} });
    await plug('sdb1', tools, release(7, rollout(-MINUTE)));
    expect(phases()).toEqual({ '4.13.7': 'ready', '4.13.1': 'activated' });
    expect(entry('4.13.7')?.reason).toEqual({
      code: 'clock',
      message: `It is not activated yet: the clock of this node is wrong: it shows a time before 2026-03-01T08:00:00Z. A bundle of its stream was made at that time. Until the clock is right, the rollout of the release can't be judged. Set the clock. It is activated automatically when nothing holds it any more. To activate it anyway, run 'stickpin activate ocp@4.13.7' and confirm`,
    });
    expect(node.statuses.at(-1)).toContain(
      'the clock of this node is wrong: it shows a time before 2026-03-01T08:00:00Z.',
    );
    node.clock.jump(NOON);
    await node.clock.advance(30_000);
    expect(phases()).toEqual({ '4.13.7': 'activated', '4.13.1': 'activated' });
  });

  it('is activated by a person in spite of such a clock and of rules about time', async () => {
    await start();
    node.facts = { ...node.facts, builtAt: NOON + 60 * MINUTE };
    await plug('sdb1', release(7, { update: { ...rollout(24 * 60 * MINUTE).update, endOfLife: at(NOON - 1) } }));
    expect(entry('4.13.7')?.activationHolds).toMatchObject([{ gate: 'clock', code: 'clock', releasedBy: 'event' }]);
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
      /it shows a time before 2026-03-10T13:00:00Z\. stickpin was built at that time\. Until the clock is right, the rollout of the release and the end of life of the release can't be judged/,
    );
    node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await node.clock.advance(0);
    expect(phases()).toEqual({ '4.13.7': 'activated' });
  });

  it('becomes held when its end of life passes while it is ready, also with an unconfirmed request', async () => {
    const update = { endOfLife: at(NOON + 10 * MINUTE) };
    await start();
    await plug('sdb1', release(7, { schedule: 'manual', update }));
    expect(entry('4.13.7')?.reason).toBeUndefined();
    node.runtime.onPull = async () => {
      throw new AppError({ code: 'runtime/pull-failed', message: 'EIO', disposition: 'retry' });
    };
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(10 * MINUTE);
    expect(entry('4.13.7')).toMatchObject({ phase: 'ready', reason: { code: 'rule/end-of-life' } });
    await restart();
    await plug('sdb1', release(7, { schedule: 'manual', update }));
    await node.clock.advance(10 * MINUTE);
    expect(phases()).toEqual({ '4.13.7': 'ready' });
    node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await node.clock.advance(0);
    expect(phases()).toEqual({ '4.13.7': 'activated' });
  });

  it('keeps no other release from its activation', async () => {
    await start();
    await plug('sdb1', release(8, FROM), release(7));
    expect(phases()).toEqual({ '4.13.7': 'activated', '4.13.8': 'ready' });
    await plug('sdc1', release(1, { name: 'tools', images: { shell: ['shell'] }, imageOver: {} }));
    expect(entry('4.13.1')?.phase).toBe('activated');
    await plug('sdd1', release(9));
    expect(phases()).toMatchObject({ '4.13.9': 'activated', '4.13.8': 'ready' });
    expect(node.engine.report()?.bundles.flatMap((one) => (one.current ? [one.version] : []))).toEqual([
      '4.13.1',
      '4.13.9',
    ]);
  });

  it('is activated when its containers run', async () => {
    await start();
    await plug('sdb1', release(6));
    await plug('sdc1', release(7, FROM));
    for (const name of ['etcd', 'api']) node.runtime.startContainer(`pod/${name}`, ref(name, 7));
    await node.clock.advance(2 * MINUTE);
    expect(entry('4.13.7')).toMatchObject({ phase: 'active', current: true });
    expect(node.store.rows.find(({ kind }) => kind === 'bundleSeenRunning')?.message).toMatch(
      /so that its tags name what runs, although its rule "from" .*>=99\.0\.0/,
    );
  });

  it('does not hold a rollback by stickpin rollback, or by containers that run again', async () => {
    const old = release(6, { update: { from: '>=99.0.0', endOfLife: at(NOON - 1) } });
    const marks = { readyAt: 1, activatedAt: 1, activeAt: 2, provenAt: 3 };
    const now = { readyAt: 4, activatedAt: 5 };
    const made = createFakeNode([stored(old, marks), stored(release(7), now)]);
    for (const bundle of [old, release(7)]) {
      for (const { reference } of bundle.contents.images) made.runtime.images.set(reference, reference);
    }
    await start(made);
    expect(node.engine.commands.rollback({ stream: 'ocp' })).toBe('ocp@4.13.6');
    await node.clock.advance(0);
    expect(entry('4.13.6')).toMatchObject({ phase: 'activated', current: true });
    expect(stable('etcd')).toBe(ref('etcd', 6));
    node.engine.commands.activate({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    node.engine.commands.activate({ bundle: 'ocp@4.13.6' });
    await node.clock.advance(0);
    expect(stable('etcd')).toBe(ref('etcd', 6));
  });

  it('an activation that was broken off half-way, and is held now, leaves the present release its tags', async () => {
    await start();
    await plug('sdb1', release(6));
    const next = release(7, { update: { endOfLife: at(NOON + MINUTE) } });
    const work = node.runtime.onPull;
    node.runtime.onPull = async (reference, signal) => {
      if (reference.endsWith('/api:stable')) await new Promise((_, reject) => signal.addEventListener('abort', reject));
      await work(reference, signal);
    };
    await plug('sdc1', next);
    expect([stable('etcd'), stable('api')]).toEqual([ref('etcd', 7), ref('api', 6)]);
    await restart(2 * MINUTE);
    await node.clock.advance(MINUTE);
    expect(entry('4.13.7')).toMatchObject({ phase: 'ready', reason: { code: 'rule/end-of-life' } });
    expect([stable('etcd'), stable('api')]).toEqual([ref('etcd', 6), ref('api', 6)]);
  });
});

describe('a release that a person rejects with a reason', () => {
  it('is stopped; STATUS, list and the history say why, also after a restart, until it is approved', async () => {
    await start();
    await plug('sdb1', release(7, { schedule: 'manual' }));
    expect(() => node.engine.commands.reject({ bundle: 'ocp@4.13.7', reason: ' ' })).toThrow(/1 to 200 characters/);
    const said = node.engine.commands.reject({ bundle: 'ocp@4.13.7', reason: 'etcd loses\nwrites' });
    expect(said).toMatch(/is rejected \(etcd loses writes\)/);
    await node.clock.advance(0);
    await restart();
    await node.clock.advance(0);
    expect(entry('4.13.7')?.reason).toMatchObject({
      code: 'trust/rejected',
      message: expect.stringContaining('Reason: etcd loses writes.'),
    });
    expect(node.statuses.at(-1)).toContain('etcd loses writes');
    expect(node.store.rows.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('Reason: etcd loses writes.'),
    );
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(/etcd loses writes/);
    node.engine.commands.approve({ bundle: 'ocp@4.13.7' });
    await node.clock.advance(0);
    expect(entry('4.13.7')?.reason).toBeUndefined();
  });
});
