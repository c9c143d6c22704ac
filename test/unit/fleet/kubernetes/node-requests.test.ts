import { expect, it } from 'vitest';
import { listNodes, readWatchEvent } from '../../../../src/fleet/kubernetes/objects.ts';
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
});
const PAGE = 500;
const NAMES = Array.from({ length: 5_000 }, (_none, at) => `worker-${at}`);

it('keeps of each page what stickpin wrote, and nothing else', async () => {
  const asked: string[] = [];
  const send = async ({ query = {} }: { readonly query?: Readonly<Record<string, string>> }) => {
    const from = Number(query.continue ?? 0);
    asked.push(`${query.limit} from ${from}`);
    const next = from + PAGE < NAMES.length ? { continue: String(from + PAGE) } : {};
    const items = NAMES.slice(from, from + PAGE).map((name) => ({ metadata: metadataOf(name) }));
    return { metadata: { resourceVersion: '9', ...next }, items };
  };
  const unused = () => {
    throw new Error('it is not asked for that');
  };
  const { nodes, resourceVersion } = await listNodes(
    { send, credentials: unused, watch: unused },
    undefined,
    NEVER_ABORTED,
  );
  expect(asked).toEqual(Array.from({ length: 10 }, (_none, at) => `500 from ${at * PAGE}`));
  expect(resourceVersion).toBe('9');
  expect(nodes).toEqual(NAMES.map(keptOf));
});

it('keeps no more of a change', () => {
  const object = { metadata: metadataOf('worker-1') };
  expect(readWatchEvent({ type: 'MODIFIED', object })).toEqual({
    type: 'MODIFIED',
    object: { metadata: keptOf('worker-1') },
  });
});
