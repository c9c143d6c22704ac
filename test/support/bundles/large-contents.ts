import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatEnvelope } from '../../../src/bundle/format/dsse.ts';
import { mediaTypes } from '../../../src/bundle/format/oci-schema.ts';
import { limits } from '../../../src/bundle/limits.ts';
import type { Contents, Image, Layer, Payload } from '../../../src/domain/model/bundle.ts';
import { signEnvelope, unsignedEnvelope } from '../../../src/factory/payload/sign-envelope.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { hostArch, type SampleKey } from './sample-bundle.ts';

const list = (sizeBytes: number, item: (at: number) => string): string => {
  const items: string[] = [];
  for (let bytes = 0, at = 0; bytes < sizeBytes; at += 1) bytes += items[items.push(item(at)) - 1]?.length ?? 0;
  return items.join('');
};

/**
 * Texts of about `sizeBytes` bytes that are JSON, are no contents, and take far more memory or time
 * than their size tells.
 */
export const hostileContents: Readonly<Record<string, (sizeBytes: number) => string>> = {
  'empty objects': (size) => `{"images":[],"layers":[{}${',{}'.repeat(size / 3)}]}`,
  'arrays within each other': (size) => `{"images":[],"layers":${'['.repeat(size / 2)}${']'.repeat(size / 2)}}`,
  'members that nobody knows': (size) => `{${list(size, (at) => `"m${at}":1,`)}"images":[],"layers":[]}`,
  'one member again and again': (size) => `{${'"layers":[],'.repeat(size / 12)}"images":[]}`,
  'one long string': (size) => `{"images":[],"layers":"${'é'.repeat(size / 2)}"}`,
};

/**
 * Valid contents with as many images, layers and tags as asked for; no image has more layers than
 * are allowed.
 */
export function largeContents(counts: {
  images: number;
  layers: number;
  layersPerImage: number;
  tags: number;
}): Contents {
  const layers = Array.from({ length: counts.layers }, (_none, at): Layer => {
    const digest = digestOf(`layer ${at}`);
    return { digest, sizeBytes: 1, diffId: digest, uncompressedBytes: 1, diskBytes: 4096, inodes: 1 };
  });
  const images = Array.from({ length: counts.images }, (_none, at): Image => {
    const repository = `registry.example.com/large/image${at}`;
    const digest = digestOf(`image ${at}`);
    return {
      reference: `${repository}@${digest}`,
      digest,
      mediaType: mediaTypes.ociManifest,
      tags: Array.from({ length: counts.tags / counts.images }, (_no, tag) => `${repository}:1.0.${tag}`),
      pin: true,
      layers: Array.from({ length: counts.layersPerImage }, (_no, of) => (at * 10 + of) % counts.layers),
    };
  });
  return { layers, images };
}

/** The most of everything that the format allows in one bundle. */
export const largestCounts = {
  images: limits.images,
  layers: limits.layers,
  layersPerImage: limits.layerUses / limits.images,
  tags: limits.tags,
};

/** The payload of a bundle whose `contents.json` has these bytes. */
export function payloadFor(contents: Uint8Array, index: Uint8Array, { layers, images }: Contents): Payload {
  const pointerTo = (bytes: Uint8Array) => ({
    digest: digestOf(bytes),
    size: bytes.length,
  });
  return {
    schemaVersion: 1,
    name: 'large',
    version: '1.0.0',
    arch: hostArch,
    sequence: 1,
    created: '2026-01-01T00:00:00Z',
    index: pointerTo(index),
    contents: pointerTo(contents),
    totals: {
      images: images.length,
      blobs: layers.length + images.length,
      sizeBytes: 0,
      diskBytes: layers.length * 4096,
      inodes: layers.length,
    },
  };
}

/**
 * Writes a signed bundle directory that has nothing but its `contents.json`, of these bytes, and
 * its `index.json`, which lists the images. `contents` is what the payload's sums are made of;
 * default none.
 */
export function writeContentsBundle(options: {
  readonly path: string;
  readonly key: SampleKey;
  readonly bytes: Uint8Array;
  readonly contents?: Contents;
}): void {
  const { path, key, bytes, contents = { layers: [], images: [] } } = options;
  const manifests = contents.images.map(({ digest, mediaType }) => ({ digest, mediaType, size: 2 }));
  const index = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests }));
  const payload = payloadFor(bytes, index, contents);
  mkdirSync(join(path, 'blobs/sha256'), { recursive: true });
  writeFileSync(join(path, 'blobs/sha256', payload.contents.digest.slice('sha256:'.length)), bytes);
  writeFileSync(join(path, 'index.json'), index);
  writeFileSync(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  const envelope = signEnvelope(unsignedEnvelope(Buffer.from(JSON.stringify(payload))), key.privateKey);
  writeFileSync(join(path, 'bundle.dsse.json'), formatEnvelope(envelope));
}
