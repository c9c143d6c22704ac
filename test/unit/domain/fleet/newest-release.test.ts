import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView, ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { BY_NAME } from '../../../../src/domain/model/roll-out-order.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import { type HookMemory, NO_HOOKS } from '../../../../src/domain/state/hook.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const release = (minor: number, over: Parameters<typeof verified>[0] = {}) =>
  verified({ version: `1.${minor}.0`, sequence: minor, images: { [`etcd-${minor}`]: [`e${minor}`] }, ...over });
const [five, six, seven] = [release(5), release(6), release(7)];
const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true, order: BY_NAME } };

type Phases = readonly (readonly [VerifiedBundle, ReleaseStatus['phase'], Partial<ReleaseStatus>?])[];

const node = (name: string, phases: Phases): FleetNode => ({
  name,
  isAbsent: false,
  status: {
    version: 1,
    releases: phases.map(([{ bundleId, payload }, phase, over]) => ({
      ...{ name: payload.name, version: payload.version, bundle: hexOf(bundleId).slice(0, 16), phase },
      ...over,
    })),
  },
});
const allReady: Phases = [
  [five, 'activated', { current: true }],
  [six, 'ready'],
  [seven, 'ready'],
];
/** It went to the newest one, and has to run it for a while. */
const went: Phases = [
  [six, 'ready'],
  [seven, 'activated', { current: true }],
];

interface Case {
  readonly newest?: VerifiedBundle;
  readonly policy?: Policy;
  readonly hooks?: HookMemory;
}

function judged(nodes: readonly FleetNode[], { newest = seven, policy: of = policy, hooks = NO_HOOKS }: Case = {}) {
  const bundles = [
    stored(five, { readyAt: NOON, activatedAt: NOON }),
    ...[six, newest].map((bundle) => stored(bundle, { readyAt: NOON })),
  ];
  const images = bundles.flatMap(allListed);
  const fleet: FleetView = { self: 'worker-2', nodes, peers: [], readLabels: [] };
  const { assessment } = judge(observation({ runtime: reachable({ images }), fleet, hooks }), bundles, of);
  return Object.fromEntries(
    assessment.bundles.map(({ bundle, activationDue, holds }) => [
      bundle.payload.version,
      activationDue ? 'due' : holds.map(({ code }) => code).join(),
    ]),
  );
}

describe('a node whose fleet has two newer releases', () => {
  const self = node('worker-2', allReady);

  it('waits for its turn for the newest, and goes to no older one meanwhile', () => {
    expect(judged([node('worker-1', went), self])).toMatchObject({
      '1.6.0': 'engine/not-next',
      '1.7.0': 'fleet/settle',
    });
    const isFirst = node('worker-1', allReady);
    expect(judged([isFirst, self])).toMatchObject({ '1.7.0': 'fleet/order' });
    // It took the older one before the newest was ready.
    const between: Phases = [
      [six, 'activated', { current: true }],
      [seven, 'ready'],
    ];
    expect(judged([node('worker-1', between), self])).toMatchObject({ '1.7.0': 'fleet/order' });
    expect(judged([self, node('worker-3', allReady)])).toMatchObject({ '1.6.0': 'engine/not-next', '1.7.0': 'due' });
  });

  it('goes to the older one while the newest is not ready everywhere, or a person has to end its hold', () => {
    const lacking: Phases = [
      [five, 'activated', { current: true }],
      [six, 'ready'],
    ];
    expect(judged([self, node('worker-3', lacking)])).toMatchObject({ '1.6.0': 'due', '1.7.0': 'fleet/not-ready' });
    const failed: Phases = [
      [six, 'ready'],
      [seven, 'activated', { current: true, rolledBack: true }],
    ];
    expect(judged([self, node('worker-3', failed)])).toMatchObject({ '1.6.0': 'due', '1.7.0': 'fleet/failed' });
  });

  it('ends what its hook has prepared: the node may be drained', () => {
    const unit = 'drain.service';
    const run = { hook: 'before-activate', unit, bundleId: six.bundleId, event: 0, startedAt: NOON } as const;
    const withHook = { ...policy, hooks: { ...policy.hooks, 'before-activate': unit } };
    const nodes = [node('worker-1', went), self];
    expect(judged(nodes, { policy: withHook })['1.6.0']).toContain('engine/not-next');
    const hooks = { ...NO_HOOKS, running: [run] };
    expect(judged(nodes, { policy: withHook, hooks })['1.6.0']).toBe('due');
  });

  it('goes to a barrier first', () => {
    const behind = release(7, { update: { from: '>=1.6.0' } });
    const nodes = [node('worker-1', [[six, 'ready']]), self];
    expect(judged(nodes, { newest: behind })['1.7.0']).toContain('rule/from');
    expect(judged([self], { newest: behind })).toMatchObject({ '1.6.0': 'due' });
  });
});
