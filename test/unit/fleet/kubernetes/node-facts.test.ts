import { expect, it } from 'vitest';
import { nodeMetadata } from '../../../../src/fleet/kubernetes/objects.ts';

const MASTER = { 'node-role.kubernetes.io/control-plane': '' };
const metadata = {
  name: 'n1',
  resourceVersion: '1',
  annotations: {},
  labels: { zone: 'a', 'stickpin.io/x': 'y', ...MASTER },
};
const factsOf = (over: { readonly spec?: object; readonly ready?: string }, keys: readonly string[] = []) => {
  const spec = { unschedulable: false, ...over.spec };
  const conditions = over.ready === undefined ? [] : [{ type: 'Ready', status: over.ready }];
  return nodeMetadata({ metadata, spec, status: { conditions } }, keys).facts;
};

it.each([
  ['is ready', { ready: 'True' }, { isReady: true, isCordoned: false }],
  ['is not ready before its kubelet said anything', {}, { isReady: false, isCordoned: false }],
  ['is not ready', { ready: 'False' }, { isReady: false, isCordoned: false }],
  ['is not ready while its kubelet is silent', { ready: 'Unknown' }, { isReady: false, isCordoned: false }],
  ['is cordoned', { ready: 'True', spec: { unschedulable: true } }, { isReady: true, isCordoned: true }],
])('a node %s', (_what, node, facts) => expect(factsOf(node)).toEqual({ labels: MASTER, ...facts }));

it('has the labels that an order reads, and nothing of its kubelet in its metadata', () => {
  expect(factsOf({ ready: 'True' }, ['zone', 'rack'])).toMatchObject({ labels: { zone: 'a', ...MASTER } });
  const node = nodeMetadata({ metadata, spec: {} as never, status: undefined } as never, []);
  expect(node).toMatchObject({ labels: { 'stickpin.io/x': 'y' }, facts: { labels: MASTER } });
  expect(node.facts).not.toHaveProperty('isReady');
});
