import { afterEach, describe, expect, it } from 'vitest';
import { POLICY, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const GIB = 2 ** 30;

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});

const release = (minor: number, diskBytes: number, update = {}) =>
  verified({
    version: `1.${minor}.0`,
    sequence: minor,
    images: { [`etcd-${minor}`]: [`layer-${minor}`] },
    layers: { [`layer-${minor}`]: { diskBytes } },
    update,
  });
const phases = () => (node.engine.report()?.bundles ?? []).map(({ version, phase, hold }) => [version, phase, hold]);

describe('a release that lacks space', () => {
  it.each([
    ['first', [4, 3]],
    ['last', [3, 4]],
  ] as const)('does not hold releases before it on the path: plugged in %s', async (_, order) => {
    node = createFakeNode([], { streams: { ocp: { current: '1.2.0' } }, update: POLICY.update });
    node.runtime.filesystem = { path: '/var', totalBytes: 100 * GIB, freeBytes: 40 * GIB };
    await node.start();
    const barrier = release(3, GIB, { barrier: { reason: 'storage is migrated' } });
    const large = release(4, 60 * GIB);
    node.plug('sdb1', ...order.map((minor) => (minor === 3 ? barrier : large)));
    await node.clock.advance(1_000);
    expect(phases().sort()).toEqual([
      ['1.3.0', 'activated', undefined],
      ['1.4.0', 'held', 'space'],
    ]);
  });
});
