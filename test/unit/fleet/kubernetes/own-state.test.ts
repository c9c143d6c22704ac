import { expect, it } from 'vitest';
import { ownStateOf, readNode } from '../../../../src/fleet/kubernetes/objects.ts';

const nodeWith = (over: { readonly spec?: object; readonly ready?: string }) =>
  readNode({
    metadata: { name: 'n1', labels: { zone: 'a' } },
    ...(over.spec && { spec: over.spec }),
    status: { conditions: over.ready === undefined ? [] : [{ type: 'Ready', status: over.ready }] },
  });

it.each([
  ['takes part', { ready: 'True' }, undefined],
  ['takes part before the kubelet said anything', {}, undefined],
  ['is left out while its kubelet is not ready', { ready: 'False' }, 'not-ready'],
  ['is left out while its kubelet is silent', { ready: 'Unknown' }, 'not-ready'],
  ['is left out while it is cordoned', { ready: 'True', spec: { unschedulable: true } }, 'cordoned'],
  ['takes part after it was uncordoned', { ready: 'True', spec: { unschedulable: false } }, undefined],
])('a node %s', (_what, node, out) => {
  const state = ownStateOf(nodeWith(node));
  expect(state.labels).toEqual({ zone: 'a' });
  expect(state.out).toBe(out);
});
