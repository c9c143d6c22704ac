import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatEnvelope } from '../../../src/bundle/format/dsse.ts';
import { mediaTypes } from '../../../src/bundle/format/oci-schema.ts';
import { digestFromHex, hexOf } from '../../../src/domain/model/digest.ts';
import { signEnvelope, unsignedEnvelope } from '../../../src/factory/payload/sign-envelope.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { hostArch, type SampleKey } from './sample-bundle.ts';

/** What {@link writePlainBundle} writes. */
export interface PlainBundleOptions {
  /** The bundle directory; it is made. */
  readonly path: string;
  readonly key: SampleKey;
  readonly images: number;
  readonly layersPerImage: number;
  /**
   * The bytes of a layer, counted through all images. Default a few bytes that no other layer has.
   */
  readonly layer?: (at: number) => Buffer;
  /** The first layer is a hole of this size instead, whose digest is wrong. */
  readonly holeBytes?: number;
  /** What containers of the images inherit. */
  readonly config?: object;
}

/**
 * Writes a signed bundle without `createBundle()`, which would unpack each layer: its layers are no
 * tars, but all that `judgeBundle()` looks at fits together. For many blobs, or large ones.
 *
 * @returns how many blobs it has, `contents.json` not counted.
 */
export function writePlainBundle(options: PlainBundleOptions): number {
  const { path, images, layersPerImage, layer = (at) => Buffer.from(`layer ${at}`) } = options;
  const blobs = join(path, 'blobs', 'sha256');
  mkdirSync(blobs, { recursive: true });
  const put = (bytes: Buffer) => {
    const hex = hexOf(digestOf(bytes));
    writeFileSync(join(blobs, hex), bytes);
    return { digest: digestFromHex(hex), size: bytes.length };
  };
  const putHole = (sizeBytes: number) => {
    const digest = digestFromHex('0'.repeat(64));
    writeFileSync(join(blobs, '0'.repeat(64)), '');
    truncateSync(join(blobs, '0'.repeat(64)), sizeBytes);
    return { digest, size: sizeBytes };
  };
  const putJson = (value: unknown) => put(Buffer.from(JSON.stringify(value)));
  const layers = Array.from({ length: images * layersPerImage }, (_none, at) =>
    at === 0 && options.holeBytes !== undefined ? putHole(options.holeBytes) : put(layer(at)),
  );
  let sizeBytes = layers.reduce((sum, { size }) => sum + size, 0);
  const manifests = Array.from({ length: images }, (_none, at) => {
    const own = layers.slice(at * layersPerImage, (at + 1) * layersPerImage);
    const config = putJson({
      image: at,
      config: options.config,
      rootfs: { type: 'layers', diff_ids: own.map(({ digest }) => digest) },
    });
    const manifest = putJson({
      schemaVersion: 2,
      mediaType: mediaTypes.ociManifest,
      config: { mediaType: mediaTypes.ociConfig, ...config },
      layers: own.map((one) => ({ mediaType: 'application/vnd.oci.image.layer.v1.tar', ...one })),
    });
    sizeBytes += config.size + manifest.size;
    return { mediaType: mediaTypes.ociManifest, ...manifest };
  });
  const contents = putJson({
    layers: layers.map(({ digest, size }) => ({
      digest,
      sizeBytes: size,
      diffId: digest,
      uncompressedBytes: size,
      diskBytes: 4096,
      inodes: 1,
    })),
    images: manifests.map(({ digest, mediaType }, at) => ({
      reference: `registry.example.com/plain/image${at}@${digest}`,
      digest,
      mediaType,
      tags: [`registry.example.com/plain/image${at}:1.0.${at}`],
      layers: Array.from({ length: layersPerImage }, (_no, offset) => at * layersPerImage + offset),
    })),
  });
  const index = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests }));
  writeFileSync(join(path, 'index.json'), index);
  writeFileSync(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  const totals = {
    images,
    blobs: layers.length + 2 * images,
    sizeBytes,
    diskBytes: layers.length * 4096,
    inodes: layers.length,
  };
  const payload = {
    schemaVersion: 1,
    name: 'plain',
    version: '1.0.0',
    arch: hostArch,
    sequence: 1,
    created: '2026-01-01T00:00:00Z',
    index: { digest: digestOf(index), size: index.length },
    contents,
    totals,
  };
  const envelope = signEnvelope(unsignedEnvelope(Buffer.from(JSON.stringify(payload))), options.key.privateKey);
  writeFileSync(join(path, 'bundle.dsse.json'), formatEnvelope(envelope));
  return totals.blobs;
}
