import { afterEach, beforeEach, expect, it } from 'vitest';
import { parseImageDocument } from '../../../src/bundle/format/oci-schema.ts';
import { createRegistry, type Registry } from '../../../src/registry/server.ts';
import { createVirtualClock, type VirtualClock } from '../../support/fake-ports.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

let registry: Registry;
let clock: VirtualClock;
let base: string;

beforeEach(async () => {
  clock = createVirtualClock();
  registry = createRegistry({
    source: { sizeOf: async () => undefined, onChange: () => () => undefined, read: async function* () {} },
    clock,
    graceMs: 0,
    token: undefined,
    log: createRecordingLog(),
    admit: async () => 'the test',
  });
  base = `http://${await registry.listen({ host: '127.0.0.1', port: 0 })}/v2/quay.io/app`;
});
afterEach(() => registry.close());

it('sends the manifest of a probe, counts the request, and does not send its configuration', async () => {
  const digest = registry.probes.offer('quay.io/app', '1');
  const answer = await fetch(`${base}/manifests/${digest}`);
  expect([answer.status, answer.headers.get('docker-content-digest')]).toEqual([200, digest]);
  expect(registry.meter.manifestRequests('quay.io/app', digest)).toBe(1);
  expect(registry.meter.manifestsSent('quay.io/app', digest)).toBe(1);
  const document = parseImageDocument(Buffer.from(await answer.arrayBuffer()), 'it', 'bundle/inconsistent');
  if (document.kind !== 'manifest') throw new Error(document.kind);

  let status: number | undefined;
  const blob = fetch(`${base}/blobs/${document.config.digest}`).then((response) => {
    status = response.status;
  });
  const other = await fetch(`${base}/manifests/sha256:${'0'.repeat(64)}`);
  expect([other.status, status]).toEqual([404, undefined]);
  await expect
    .poll(async () => {
      await clock.advance(3_000);
      return status;
    })
    .toBe(404);
  await blob;
  // A probe is no blob that a bundle lacks.
  expect(registry.meter.unknownRequests('quay.io/app').count).toBe(0);
});
