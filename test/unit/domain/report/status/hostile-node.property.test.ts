import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView, Peer, ReleaseStatus } from '../../../../../src/domain/fleet/node-status.ts';
import { newPause, type Pause } from '../../../../../src/domain/fleet/pause.ts';
import { PHASES } from '../../../../../src/domain/model/condition.ts';
import { type Digest, hexOf } from '../../../../../src/domain/model/digest.ts';
import type { FoundBundle, Medium, MediumState } from '../../../../../src/domain/model/medium.ts';
import { BY_NAME, CONTROL_PLANE_LABEL } from '../../../../../src/domain/model/roll-out-order.ts';
import { CODES } from '../../../../../src/domain/report/codes.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { StatusReport } from '../../../../../src/domain/report/status-schema.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  refused,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const LIAR = 'worker-9';
const release = (patch: number) =>
  verified({ version: `4.13.${patch}`, sequence: patch, images: { [`etcd${patch}`]: [`etcd${patch}`] } });
const [current, next, newer] = [release(6), release(7), release(8)];
const active = stored(current, { readyAt: NOON - 2, activatedAt: NOON - 1 });
const ready = stored(next, { readyAt: NOON });
const shortId = (id: string) => hexOf(id as Digest).slice(0, 16);

/** What is this node's own, and calm. */
const OWN: Readonly<Record<string, readonly StoredBundle[]>> = {
  'no release': [],
  'a release that runs': [active],
  'a release that waits for its turn': [active, ready],
  'a release that is loaded from the other node': [active, stored(newer)],
};

const known = [current, next, newer].map(({ bundleId, payload }) => ({
  ...{ name: payload.name, version: payload.version, bundle: shortId(bundleId) },
}));
const flag = fc.option(fc.constant(true as const), { nil: undefined });
const status = fc.record({
  version: fc.constant(1 as const),
  arch: fc.constantFrom('amd64', 'arm64'),
  releases: fc.array(
    fc
      .record({
        what: fc.constantFrom(...known, { name: 'other', version: '99.0.0', bundle: 'f'.repeat(16) }),
        phase: fc.constantFrom(...PHASES.map(({ phase }) => phase)),
        current: fc.boolean(),
        runs: fc.option(fc.boolean(), { nil: undefined }),
        ...{ incomplete: flag, begun: flag, rolledBack: flag, back: flag, fails: flag, degraded: flag },
        disturbedMs: fc.option(fc.nat(), { nil: undefined }),
        reason: fc.option(fc.constantFrom(...CODES.map(({ code }) => code)), { nil: undefined }),
      })
      .map(({ what, ...claims }) => ({ ...what, ...claims }) as ReleaseStatus),
    { maxLength: 4 },
  ),
  wants: fc.subarray(known.map(({ name, version }) => ({ name, version }))),
  rejects: fc.subarray(known.map(({ bundle }) => bundle)),
  more: fc.constantFrom(0, 3),
});
const facts = fc.record({
  labels: fc.constantFrom({}, { canary: '' }, { [CONTROL_PLANE_LABEL]: '' }),
  isReady: fc.boolean(),
  isCordoned: fc.boolean(),
});
const pause = fc
  .record({
    node: fc.constantFrom(LIAR, 'worker-1', 'worker-2'),
    by: fc.constantFrom('a rollback', 'root'),
    name: fc.constant('ocp'),
    version: fc.constantFrom('4.13.7', '4.13.8'),
  })
  .map((said): Pause => ({ ...newPause({ ...said, why: 'no power', atMs: NOON, forMs: 3_600_000 }), from: LIAR }));
const offers = fc.subarray(
  [current, next, newer].map(({ bundleId, payload: { name, version, sequence } }) => ({
    ...{ bundleId, name, version, sequence, isWhole: true, revision: 'r' },
  })),
);
const peer = fc.record({
  trouble: fc.constantFrom(undefined, 'no route to host'),
  leftOut: fc.constantFrom(undefined, 'it had more than it may'),
  unreached: fc.constantFrom(undefined, [newer.bundleId], [next.bundleId]),
  bundles: offers,
});
const layer = digestOf('layer etcd8');
const bundleOnIt = fc.oneof(
  fc.constantFrom(...CODES.map(({ code }) => code)).map((code) => refused('it says so', code)),
  fc
    .constantFrom(undefined, 'absent' as const, 'damaged' as const)
    .map((why) => found(newer, why && [{ digest: layer, why }])),
);
const state = fc.oneof(
  fc
    .array(bundleOnIt, { maxLength: 3 })
    .map((bundles): MediumState => ({ kind: 'read', bundles, trustRevision: 'keys-1' })),
  fc.constantFrom<MediumState>({ kind: 'attached' }, { kind: 'mounted' }, { kind: 'unmounted' }),
  fc
    .constantFrom(...CODES.map(({ code }) => code))
    .map((code): MediumState => ({ kind: 'failed', reason: { code, message: 'it says so' } })),
);
const lies = fc.record({
  own: fc.constantFrom(...Object.keys(OWN)),
  others: fc.integer({ min: 0, max: 2 }),
  order: fc.constantFrom(BY_NAME, { ...BY_NAME, canary: { nodes: 'canary', soakMs: 60_000 } }),
  status: fc.option(status, { nil: undefined }),
  isAbsent: fc.boolean(),
  isSilent: flag,
  facts: fc.option(facts, { nil: undefined }),
  pauses: fc.array(pause, { maxLength: 2 }),
  peer: fc.option(peer, { nil: undefined }),
  isPeerReady: fc.boolean(),
  state: fc.option(state, { nil: undefined }),
  failure: fc.constantFrom(undefined, 'media/blob-damaged', 'media/blob-unreadable', 'engine/stalled', 'bundle/digest'),
  isBad: fc.boolean(),
  wasLast: fc.boolean(),
});
type Lies = Parameters<Parameters<typeof fc.property<[ReturnType<typeof lies.generate>['value']]>>[1]>[0];

const honest = (name: string, bundles: readonly StoredBundle[]): FleetNode => ({
  name,
  isAbsent: false,
  facts: { labels: {}, isReady: true, isCordoned: false },
  status: {
    version: 1,
    arch: 'amd64',
    releases: bundles.map(({ bundleId, payload, activatedAt, readyAt }) => ({
      ...{ name: payload.name, version: payload.version, bundle: shortId(bundleId) },
      ...(activatedAt === undefined
        ? { phase: readyAt === undefined ? ('preloading' as const) : ('ready' as const) }
        : { phase: 'proven' as const, current: true }),
    })),
  },
});

function reportWith(it: Lies): StatusReport {
  const own = OWN[it.own] ?? [];
  const bad = { digest: layer, why: 'damaged', medium: LIAR } as const;
  const bundles = own.map((one) => (one.bundleId === newer.bundleId && it.isBad ? { ...one, badBlobs: [bad] } : one));
  const others = ['worker-1', 'worker-3'].slice(0, it.others).map((name) => honest(name, own));
  const liar = {
    name: LIAR,
    isAbsent: it.isAbsent,
    isSilent: it.isSilent,
    status: it.status,
    facts: it.facts,
  } as FleetNode;
  const fleet: FleetView = {
    self: 'worker-2',
    nodes: [...others, honest('worker-2', own), liar],
    peers: it.peer === undefined ? [] : [{ name: LIAR, address: '10.0.0.9:9777', ...it.peer } as Peer],
    readLabels: ['canary'],
  };
  const isFree = it.isPeerReady ? { isReady: true } : { isReady: false };
  const media: Medium[] =
    it.state === undefined
      ? []
      : [{ ...medium(LIAR, it.state), mediumId: `peer:${LIAR}`, peer: isFree as NonNullable<Medium['peer']> }];
  const failure = {
    ...{ task: pullOf(newer, 'etcd8'), attempts: 2, retryAt: undefined },
    reason: { code: it.failure ?? '', message: 'it gave wrong bytes' },
  };
  const last = { mediumId: `peer:${LIAR}`, label: LIAR, isDropFolder: false, isPeer: true, seenMs: 0 } as const;
  const seen = observation({
    ...{ media, fleet },
    runtime: reachable({ images: bundles.filter(({ readyAt }) => readyAt !== undefined).flatMap(allListed) }),
    lastCarriers: new Map(it.wasLast || own.includes(active) ? [[newer.bundleId, last]] : []),
    failures: it.failure === undefined ? [] : [failure],
  });
  const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true, order: it.order } };
  const { assessment } = judge(seen, bundles, policy, { pauses: it.pauses });
  return reportOf({ observed: seen, memory: seen, assessment }, { doneBytes: 0, totalBytes: 0, waitingTransfers: 0 });
}

describe('a hostile node, whatever it reports, pauses, offers and gives', () => {
  it('never makes another node call support or ask for a stick', () => {
    fc.assert(
      fc.property(lies, (it) => {
        const { status: line, advice, needsPerson } = reportWith(it);
        expect(line).not.toMatch(/CALL SUPPORT|PLUG IN/);
        expect(['call-support', 'plug-in']).not.toContain(advice.action);
        expect(needsPerson).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  const calm: Lies = {
    ...{
      own: 'a release that runs',
      others: 1,
      order: BY_NAME,
      status: undefined,
      isAbsent: false,
      isSilent: undefined,
    },
    ...{ facts: undefined, pauses: [], peer: undefined, isPeerReady: true, state: undefined, failure: undefined },
    ...{ isBad: false, wasLast: false },
  };
  const read = (...bundles: readonly FoundBundle[]): MediumState => ({
    kind: 'read',
    bundles,
    trustRevision: 'keys-1',
  });
  const reported = (over: object): Lies['status'] => {
    const releases = [
      { name: 'ocp', version: '4.13.8', bundle: shortId(newer.bundleId), phase: 'proven' as const, ...over },
    ];
    return { version: 1, arch: 'amd64', releases, wants: [], rejects: [], more: 0 } as Lies['status'];
  };
  const OUT = "If worker-9 is gone or lies: 'stickpin fleet remove worker-9'.";

  it.each<[string, Partial<Lies>, string]>([
    [
      'a bundle that no key signed',
      { state: read(refused('who?', 'bundle/unknown-key')) },
      `1 bundle not taken from worker-9 (K-03). ${OUT}`,
    ],
    [
      'more than it may',
      { state: read(refused('too much', 'fleet/left-out')) },
      `Nothing is taken from worker-9 (F-30). ${OUT}`,
    ],
    [
      'a release that it alone has',
      { others: 0, status: reported({ current: true }) },
      `ocp 4.13.8 is loaded on worker-9, and no node can give it. Plug its stick into any node. ${OUT}`,
    ],
  ])('is shown behind what is its own, where it has %s', (_, over, note) => {
    const { status: line, advice } = reportWith({ ...calm, ...over });
    expect(line).toMatch(/^IDLE: ocp 4\.13\.6 activated/);
    expect(advice.text).toMatch(/^ocp 4\.13\.6 activated/);
    expect(advice.text).toContain(note);
  });

  it('is named where it holds the release of this node', () => {
    const waits = { ...calm, own: 'a release that waits for its turn' };
    const back = { version: '4.13.7', bundle: shortId(next.bundleId), phase: 'activated', rolledBack: true };
    const said = {
      name: 'ocp',
      version: '4.13.7',
      node: LIAR,
      why: 'no power',
      by: 'a rollback',
      atMs: NOON,
      forMs: 3_600_000,
    };
    for (const [lie, code] of [
      [{ status: reported(back) }, 'F-03'],
      [{ pauses: [{ ...newPause(said), from: LIAR }] }, 'F-34'],
    ] satisfies readonly (readonly [Partial<Lies>, string])[]) {
      const { status: line, advice } = reportWith({ ...waits, ...lie });
      expect(line.startsWith(`WAIT (${code}): ocp 4.13.7 is loaded, not activated: `)).toBe(true);
      expect(line).toContain(LIAR);
      expect(advice.text).toContain(OUT);
    }
  });
});
