import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatEnvelope, parseEnvelope } from '../../../src/bundle/format/dsse.ts';
import { bundleIdOf } from '../../../src/bundle/verify/verify-envelope.ts';
import type { Payload } from '../../../src/domain/model/bundle.ts';
import { type BundleId, hexOf } from '../../../src/domain/model/digest.ts';
import { signEnvelope, unsignedEnvelope } from '../../../src/factory/payload/sign-envelope.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { hostArch, type SampleKey } from './sample-bundle.ts';

/**
 * Signs the payload of the bundle directory at `path` with these keys alone; its bundle id stays
 * the same without `more` members.
 */
export function signAnew(path: string, keys: readonly SampleKey[], more?: object): void {
  const bytes = payloadBytes(path);
  writeEnvelope(path, more ? Buffer.from(JSON.stringify({ ...JSON.parse(bytes.toString()), ...more })) : bytes, keys);
}

/** Makes a bundle directory without images, below `dir`. */
export function makeNotice(
  dir: string,
  over: Partial<Payload>,
  keys: readonly SampleKey[],
): { path: string; bundleId: BundleId } {
  const { name = 'ocp', version = '2026.1.1' } = over;
  const path = join(dir, `${name}-${version}-${hostArch}`);
  mkdirSync(join(path, 'blobs/sha256'), { recursive: true });
  const contents = writeBlob(path, Buffer.from('{"layers":[],"images":[]}'));
  const index = Buffer.from('{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}');
  writeFileSync(join(path, 'index.json'), index);
  writeFileSync(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  const payload: Payload = {
    schemaVersion: 1,
    name,
    version,
    arch: hostArch,
    sequence: 100,
    created: '2026-01-01T00:00:00Z',
    index: pointerTo(index),
    contents,
    totals: { images: 0, blobs: 0, sizeBytes: 0, diskBytes: 0, inodes: 0 },
    ...over,
  };
  return { path, bundleId: writeEnvelope(path, Buffer.from(JSON.stringify(payload)), keys) };
}

/** Adds a blob to the bundle directory at `path`. */
function writeBlob(path: string, bytes: Buffer): ReturnType<typeof pointerTo> {
  const pointer = pointerTo(bytes);
  writeFileSync(join(path, 'blobs/sha256', hexOf(pointer.digest)), bytes);
  return pointer;
}

function pointerTo(bytes: Buffer) {
  return { digest: digestOf(bytes), size: bytes.length };
}

function payloadBytes(path: string): Buffer {
  return parseEnvelope(readFileSync(join(path, 'bundle.dsse.json'))).payload;
}

function writeEnvelope(path: string, bytes: Buffer, keys: readonly SampleKey[]): BundleId {
  const envelope = keys.map((key) => key.privateKey).reduce(signEnvelope, unsignedEnvelope(bytes));
  writeFileSync(join(path, 'bundle.dsse.json'), formatEnvelope(envelope));
  return bundleIdOf(bytes);
}
