import { expect, it } from 'vitest';
import type { KubernetesApi } from '../../../../src/fleet/kubernetes/api.ts';
import { listNodes, nodeMetadata, readWatchEvent } from '../../../../src/fleet/kubernetes/objects.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';

/** A Node of a large cluster: most of its metadata is from others. */
const metadataOf = (name: string) => ({
  name,
  uid: `uid-of-${name}`,
  resourceVersion: '7',
  creationTimestamp: '2026-01-01T00:00:00Z',
  annotations: { 'stickpin.io/status': '{}', 'example.org/facts': 'x'.repeat(4_000) },
  labels: { 'kubernetes.io/hostname': name, 'stickpin.io/ready-ocp': '4.13.7' },
  managedFields: [{ manager: 'kubelet', operation: 'Update', fieldsV1: { 'f:status': { 'f:conditions': {} } } }],
});
const keptOf = (name: string) => ({
  name,
  resourceVersion: '7',
  annotations: { 'stickpin.io/status': '{}' },
  labels: { 'stickpin.io/ready-ocp': '4.13.7' },
  facts: { labels: {} },
});

it('keeps of each Node of a list what stickpin wrote, and nothing else', async () => {
  const names = Array.from({ length: 5_000 }, (_none, at) => `worker-${at}`);
  const unused = () => {
    throw new Error('it is not asked for that');
  };
  const api: KubernetesApi = {
    list: async ({ query }, onItem) => {
      expect(query).toEqual({ resourceVersion: '0' });
      for (const name of names) onItem({ metadata: metadataOf(name) });
      return { metadata: { resourceVersion: '9' }, items: [] };
    },
    send: unused,
    credentials: unused,
    watch: unused,
  };
  const { nodes, resourceVersion } = await listNodes(api, {}, NEVER_ABORTED);
  expect(resourceVersion).toBe('9');
  expect(nodes).toEqual(names.map(keptOf));
});

it('keeps no more of a change', () => {
  const object = { metadata: metadataOf('worker-1') };
  const event = readWatchEvent({ type: 'MODIFIED', object });
  expect(event.type === 'MODIFIED' && nodeMetadata(event.object, [])).toEqual(keptOf('worker-1'));
});
