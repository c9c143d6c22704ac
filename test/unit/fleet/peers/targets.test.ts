import { expect, it } from 'vitest';
import { targetsOf } from '../../../../src/fleet/peers/addresses.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const nodes = [
  { name: 'worker-1', endpoint: { host: '10.0.0.1', port: 9777 }, serves: [] },
  { name: 'worker-2', endpoint: { host: '10.0.0.2', port: 9777 }, serves: [] },
  { name: 'worker-3', serves: [] },
];
const empty = { isComplete: true, fixed: [], stored: [] };
const names = (sources: Partial<Parameters<typeof targetsOf>[0]>) =>
  [...targetsOf({ self: 'worker-1', nodes, isComplete: true, fixed: [], stored: [], ...sources })].map(
    ([address, { name, isAnnounced }]) => [address, name, isAnnounced],
  );

it('are the nodes that serve, without the own one', () => {
  expect(names({})).toEqual([['10.0.0.2:9777', 'worker-2', true]]);
});

it('are fixed addresses too, with the port of their own or the usual one', () => {
  expect(names({ nodes: [], fixed: ['10.0.0.2', '10.0.0.4:1', '[fd00::4]:2'] })).toEqual([
    ['10.0.0.2:9777', undefined, false],
    ['10.0.0.4:1', undefined, false],
    ['[fd00::4]:2', undefined, false],
  ]);
});

it('name a fixed address that the cluster knows once', () => {
  expect(names({ fixed: ['10.0.0.2'] })).toEqual([['10.0.0.2:9777', 'worker-2', true]]);
});

it('are nodes of before while the API server is silent, and those that it still names', () => {
  const stored = [
    { name: 'worker-2', address: '10.0.0.9:9777' },
    { name: 'worker-3', address: '10.0.0.3:9777' },
    { name: 'gone', address: '10.0.0.8:9777' },
    { name: 'worker-1', address: '10.0.0.7:9777' },
  ];
  expect(names({ stored }).map(([address]) => address)).toEqual(['10.0.0.2:9777', '10.0.0.3:9777']);
  expect(names({ stored, isComplete: false }).map(([address]) => address)).toEqual([
    '10.0.0.2:9777',
    '10.0.0.3:9777',
    '10.0.0.8:9777',
  ]);
});

it('are not waited for to announce something while the API server is silent', () => {
  expect(names({ isComplete: false })).toEqual([['10.0.0.2:9777', 'worker-2', false]]);
});

it('are one place where two nodes name it: any of them may be there, whichever comes last', () => {
  const [, second] = nodes;
  const leftover = { name: 'worker-9', endpoint: { host: '10.0.0.2', port: 9777 }, serves: [digestOf('a')] };
  const expected = { name: undefined, names: ['worker-2', 'worker-9'], serves: [digestOf('a')] };
  for (const order of [
    [second, leftover],
    [leftover, second],
  ]) {
    const targets = targetsOf({ self: 'worker-1', nodes: order.flatMap((one) => one ?? []), ...empty });
    expect([...targets.values()]).toEqual([{ ...expected, endpoint: leftover.endpoint, isAnnounced: true }]);
  }
});

it('are still those of a node that answered there before another one named its address', () => {
  const other = { name: 'worker-9', endpoint: { host: '10.0.0.3', port: 9777 }, serves: [] };
  const stored = [{ name: 'worker-3', address: '10.0.0.3:9777' }];
  const targets = targetsOf({ self: 'worker-1', nodes: [...nodes, other], ...empty, stored });
  expect(targets.get('10.0.0.3:9777')).toMatchObject({ names: ['worker-3', 'worker-9'], isAnnounced: true });
  expect(targets.get('10.0.0.3:9777')?.name).toBeUndefined();
});

it('are not the own address, which another node names', () => {
  const other = { name: 'worker-9', endpoint: { host: '10.0.0.1', port: 9777 }, serves: [] };
  expect(names({ nodes: [...nodes, other] })).toEqual([['10.0.0.2:9777', 'worker-2', true]]);
});
