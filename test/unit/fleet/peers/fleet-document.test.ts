import { expect, it } from 'vitest';
import type { NodeStatus } from '../../../../src/domain/fleet/node-status.ts';
import type { Phase } from '../../../../src/domain/model/condition.ts';
import { fleetDocument, WrittenStatuses } from '../../../../src/fleet/peers/fleet-document.ts';
import type { ClusterNode } from '../../../../src/fleet/trouble.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const statusOf = (phase: Phase): NodeStatus => ({
  version: 1,
  releases: [{ name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase }],
});
const written = (phase: Phase): ClusterNode => ({ name: 'b', serves: [], status: statusOf(phase) });

/** Node `a`, which received the status of `b` on the wire at 1 s. */
function scene() {
  let nowMs = 0;
  const heard: string[] = [];
  const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  const cluster = fixedCluster('a');
  const statuses = new WrittenStatuses(cluster, clock, (node) => heard.push(node));
  cluster.onChange(() => statuses.refresh());
  const received = new Map([['b', { status: statusOf('preloading'), atMs: 1_000 }]]);
  const phase = () => {
    const parts = {
      cluster,
      peers: { list: () => [], statuses: () => received, nodeNames: () => ['b'] },
      written: statuses,
      silence: { seenAt: () => undefined, isAbsent: () => false, isSilent: () => false },
      ownStatus: () => undefined,
      search: () => 'new' as const,
    };
    return fleetDocument(parts).nodes.find(({ name }) => name === 'b')?.status?.releases[0]?.phase;
  };
  return {
    phase,
    heard,
    write: (atMs: number, ...nodes: ClusterNode[]) => {
      nowMs = atMs;
      cluster.set(nodes);
    },
  };
}

it('shows what a node wrote after it was asked last', () => {
  const { phase, write } = scene();
  write(0, written('held'));
  expect(phase()).toBe('preloading');
  write(2_000, written('ready'));
  expect(phase()).toBe('ready');
});

it('shows what a node told after it wrote last, also when the API server is read again', () => {
  const { phase, write } = scene();
  write(500, written('held'));
  write(2_000, written('held'));
  expect(phase()).toBe('preloading');
});

it('shows what a node told on the wire while its Node says nothing, and nothing once it took that back', () => {
  const { phase, write } = scene();
  expect(phase()).toBe('preloading');
  write(2_000, { name: 'b', serves: [] });
  expect(phase()).toBe('preloading');
  write(3_000, written('ready'));
  write(4_000, { name: 'b', serves: [] });
  expect(phase()).toBeUndefined();
});

it('takes each change of what a node wrote for a sign of life, and not what is read first', () => {
  const { heard, write } = scene();
  write(0, written('held'));
  write(1_000, written('held'));
  expect(heard).toEqual([]);
  write(2_000, written('ready'));
  write(3_000, { ...written('ready'), endpoint: { host: '10.0.0.2', port: 9777 } });
  expect(heard).toEqual(['b', 'b']);
  // What this node writes itself is no sign that it hears anybody.
  write(4_000, { ...written('held'), name: 'a' });
  write(5_000, { ...written('ready'), name: 'a' });
  expect(heard).toEqual(['b', 'b']);
});

it('has no removed node among those that count, whatever it said, and names it', () => {
  const cluster = fixedCluster('a');
  cluster.set([written('proven'), { name: 'a', serves: [] }]);
  const clock = { now: () => 0, monotonic: () => 0, sleep: async () => undefined };
  const parts = {
    cluster,
    peers: {
      list: () => [],
      statuses: () => new Map([['b', { status: statusOf('ready'), atMs: 0 }]]),
      nodeNames: () => ['b', 'c'],
    },
    written: new WrittenStatuses(cluster, clock, () => undefined),
    silence: { seenAt: () => undefined, isAbsent: () => false, isSilent: () => false },
    ownStatus: () => undefined,
    search: () => 'new' as const,
  };
  const view = (...exclude: readonly string[]) => fleetDocument({ ...parts, exclude });
  expect(view('b').nodes.map(({ name }) => name)).toEqual(['a', 'c']);
  expect([view('b').removed, view('b').isRemoved]).toEqual([['b'], undefined]);
  // The settings are the same on all nodes: others listen to this one no more.
  expect(view('a', 'b')).toMatchObject({ nodes: [{ name: 'a' }, { name: 'c' }], isRemoved: true });
  expect([view().removed, view().nodes.length]).toEqual([undefined, 3]);
});
