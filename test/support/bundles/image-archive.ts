import type { SampleImage } from './sample-image.ts';
import { type TarMember, tarArchive } from './tar-archive.ts';

export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Each blob once. */
export function blobMembers(...images: SampleImage[]) {
  const blobs = new Map(images.flatMap(({ blobs }) => blobs).map((blob) => [blob.digest, blob]));
  return [...blobs.values()].map(({ digest, bytes }) => ({ path: `blobs/sha256/${digest.slice(7)}`, bytes }));
}

export function blobOf({ top }: SampleImage) {
  return { path: `blobs/sha256/${top.digest.slice(7)}`, bytes: top.bytes };
}

/** An entry of `index.json`. */
export function entry({ top }: SampleImage, annotations?: Record<string, string>, more: object = {}): object {
  const { mediaType, digest, sizeBytes: size } = top;
  return { mediaType, digest, size, ...(annotations && { annotations }), ...more };
}

/** An archive with an OCI layout, which has the entries and the members. */
export function layout(manifests: unknown[], ...members: TarMember[]): Buffer {
  return tarArchive([
    ...members,
    { path: 'index.json', bytes: json({ schemaVersion: 2, manifests }) },
    { path: 'oci-layout', bytes: json({ imageLayoutVersion: '1.0.0' }) },
  ]);
}

/** What Docker from version 25 on and containerd write. */
export function named(name: string): Record<string, string> {
  return {
    'io.containerd.image.name': name,
    'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
  };
}
