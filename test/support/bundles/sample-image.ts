import { createCipheriv, createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../../src/platform/digest.ts';
import { tarArchive } from './tar-archive.ts';

/** Media types of the OCI image specification 1.1 that sample images use. */
const sampleMediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const;

/** Content with its OCI descriptor; `digest` is `sha256:` and 64 hex digits. */
export interface SampleBlob {
  readonly mediaType: string;
  readonly digest: string;
  readonly sizeBytes: number;
  readonly bytes: Buffer;
}

/**
 * A gzip-compressed layer. `diffId` is the digest of its tar; `diskBytes` counts files rounded up
 * to 4 KiB; `inodes` counts files and directories.
 */
export interface SampleLayer extends SampleBlob {
  readonly diffId: string;
  readonly uncompressedBytes: number;
  readonly diskBytes: number;
  readonly inodes: number;
}

/** One image for one platform, with the image index around it when that was asked for. */
export interface SampleImage {
  readonly manifest: SampleBlob;
  readonly config: SampleBlob;
  readonly layers: readonly SampleLayer[];
  readonly index?: SampleBlob;
  /**
   * What a registry tag or a layout's entry names: the index where there is one, else the manifest.
   */
  readonly top: SampleBlob;
  /** Every blob of the image once: index, manifest, config, layers. */
  readonly blobs: readonly SampleBlob[];
}

export { digestOf };

/** Bytes that look random and are the same for the same seed on every machine. */
export function seededBytes(seed: string, sizeBytes: number): Buffer {
  const key = createHash('sha256').update(seed).digest();
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  return Buffer.concat([cipher.update(Buffer.alloc(sizeBytes)), cipher.final()]);
}

/**
 * A layer of `files` (default 3) regular files below `/opt/<seed>`, about `sizeBytes` (default 16
 * KiB) together. The content doesn't compress, so blob and tar are about the same size; with
 * `compressible` it shrinks to little.
 */
export function sampleLayer(options: {
  seed: string;
  sizeBytes?: number;
  files?: number;
  compressible?: boolean;
}): SampleLayer {
  const { seed, sizeBytes = 16 * 1024, files = 3, compressible = false } = options;
  const directory = `opt/${seed.replace(/[^A-Za-z0-9._-]/g, '_')}/`;
  const share = Math.floor(sizeBytes / files);
  const entries = Array.from({ length: files }, (_, at) => {
    const length = at === files - 1 ? sizeBytes - share * (files - 1) : share;
    const bytes = compressible ? Buffer.alloc(length, `${seed}\n`) : seededBytes(`${seed}/${at}`, length);
    return { path: `${directory}file-${at}`, bytes };
  });
  const tar = tarArchive([{ path: 'opt/' }, { path: directory }, ...entries]);
  const bytes = gzipSync(tar, { level: 1 });
  const diskBytes = entries.reduce((sum, entry) => sum + Math.ceil(entry.bytes.length / 4096) * 4096, 0);
  return {
    ...blob(sampleMediaTypes.layer, bytes),
    diffId: digestOf(tar),
    uncompressedBytes: tar.length,
    diskBytes,
    inodes: files + 2,
  };
}

/**
 * A layer of exactly this tar, gzip-compressed or as `compress` makes it. `diskBytes` and `inodes`
 * are not measured: 0.
 */
export function layerOfTar(tar: Buffer, compress: (tar: Buffer) => Buffer = (bytes) => gzipSync(bytes)): SampleLayer {
  const measured = { diffId: digestOf(tar), uncompressedBytes: tar.length, diskBytes: 0, inodes: 0 };
  return { ...blob(sampleMediaTypes.layer, compress(tar)), ...measured };
}

/**
 * An image over the given layers (default: one of 16 KiB made from the seed). The same options give
 * the same digests. `architecture` is a GOARCH, by default this machine's. `withIndex` wraps it in
 * an image index that also names a second platform whose manifest is not there, as a bundle for one
 * platform carries it. `command` is what a container of it runs; there is nothing in the default
 * layers that could run.
 */
export function sampleImage(options: {
  seed: string;
  layers?: readonly SampleLayer[];
  architecture?: string;
  withIndex?: boolean;
  labels?: Readonly<Record<string, string>>;
  command?: readonly string[];
  volumes?: readonly string[];
  /** More of what its containers inherit. */
  config?: object;
  /** Media types in place of those of OCI; those of layers are their own. */
  types?: { readonly manifest?: string; readonly config?: string };
}): SampleImage {
  const { seed, architecture = hostArchitecture(), command = ['/bin/true'], volumes } = options;
  const types = { ...sampleMediaTypes, ...options.types };
  const layers = options.layers ?? [sampleLayer({ seed })];
  const config = jsonBlob(types.config, {
    created: '2024-01-01T00:00:00Z',
    architecture,
    os: 'linux',
    config: {
      Cmd: command,
      Labels: { 'org.opencontainers.image.title': seed, ...options.labels },
      ...(volumes && { Volumes: Object.fromEntries(volumes.map((path) => [path, {}])) }),
      ...options.config,
    },
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => layer.diffId) },
    history: layers.map((_, at) => ({ created: '2024-01-01T00:00:00Z', created_by: `layer ${at}` })),
  });
  const manifest = jsonBlob(types.manifest, {
    schemaVersion: 2,
    mediaType: types.manifest,
    config: descriptor(config),
    layers: layers.map(descriptor),
  });
  const index = options.withIndex ? indexAround(manifest, seed, architecture) : undefined;
  const unique = new Map([...(index ? [index] : []), manifest, config, ...layers].map((part) => [part.digest, part]));
  return { manifest, config, layers, ...(index && { index }), top: index ?? manifest, blobs: [...unique.values()] };
}

/**
 * A chart, a model or another artifact (image-spec 1.1, "Guidelines for Artifact Usage") of these
 * files.
 */
export function sampleArtifact(options: {
  files: Readonly<Record<string, Buffer>>;
  /** Default `application/vnd.example.model`. */
  artifactType?: string;
}): SampleImage {
  const { files, artifactType = 'application/vnd.example.model' } = options;
  const config = blob('application/vnd.oci.empty.v1+json', Buffer.from('{}'));
  const layers = Object.entries(files).map(([title, bytes]) => ({
    ...blob('application/octet-stream', bytes),
    ...{ diffId: digestOf(bytes), uncompressedBytes: bytes.length, diskBytes: 0, inodes: 1, title },
  }));
  const manifest = jsonBlob(sampleMediaTypes.manifest, {
    schemaVersion: 2,
    mediaType: sampleMediaTypes.manifest,
    artifactType,
    config: descriptor(config),
    layers: layers.map((layer) => ({
      ...descriptor(layer),
      annotations: { 'org.opencontainers.image.title': layer.title },
    })),
  });
  return { manifest, config, layers, top: manifest, blobs: [manifest, config, ...layers] };
}

/** An index over images that are all there, unlike in a bundle. */
export function indexOver(images: Readonly<Record<string, SampleImage>>): SampleImage {
  const manifests = Object.entries(images).map(([architecture, { manifest }]) => ({
    ...descriptor(manifest),
    platform: { architecture, os: 'linux' },
  }));
  const top = jsonBlob(sampleMediaTypes.index, { schemaVersion: 2, mediaType: sampleMediaTypes.index, manifests });
  const [first] = Object.values(images);
  if (first === undefined) throw new TypeError('an index needs an image');
  return { ...first, index: top, top, blobs: [top, ...Object.values(images).flatMap(({ blobs }) => blobs)] };
}

/**
 * An image in a layout and the names its entry carries; without names it is listed by digest only.
 */
export interface LayoutEntry {
  readonly image: SampleImage;
  /** Values of `org.opencontainers.image.ref.name`, one entry of index.json for each. */
  readonly names?: readonly string[];
}

/**
 * Writes an OCI image layout (`oci-layout`, `index.json`, `blobs/sha256/…`) into `directory`, which
 * is made when it is missing. `omit` names digests whose blobs are left out.
 */
export function writeOciLayout(
  directory: string,
  images: readonly LayoutEntry[],
  options: { omit?: readonly string[] } = {},
): void {
  const blobs = join(directory, 'blobs', 'sha256');
  mkdirSync(blobs, { recursive: true });
  const omitted = new Set(options.omit ?? []);
  for (const part of images.flatMap((entry) => entry.image.blobs)) {
    if (!omitted.has(part.digest)) writeFileSync(join(blobs, part.digest.slice('sha256:'.length)), part.bytes);
  }
  const manifests = images.flatMap(({ image, names }) =>
    names === undefined || names.length === 0
      ? [descriptor(image.top)]
      : names.map((name) => ({
          ...descriptor(image.top),
          annotations: { 'org.opencontainers.image.ref.name': name },
        })),
  );
  const index = { schemaVersion: 2, mediaType: sampleMediaTypes.index, manifests };
  writeFileSync(join(directory, 'index.json'), JSON.stringify(index));
  writeFileSync(join(directory, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
}

/** The descriptor of a blob as manifests and indexes carry it: `mediaType`, `digest`, `size`. */
function descriptor(of: SampleBlob): { mediaType: string; digest: string; size: number } {
  return { mediaType: of.mediaType, digest: of.digest, size: of.sizeBytes };
}

function indexAround(manifest: SampleBlob, seed: string, architecture: string): SampleBlob {
  const foreign = Buffer.from(`${seed} for another platform`);
  const otherArchitecture = architecture === 's390x' ? 'ppc64le' : 's390x';
  return jsonBlob(sampleMediaTypes.index, {
    schemaVersion: 2,
    mediaType: sampleMediaTypes.index,
    manifests: [
      { ...descriptor(manifest), platform: { architecture, os: 'linux' } },
      {
        mediaType: sampleMediaTypes.manifest,
        digest: digestOf(foreign),
        size: foreign.length,
        platform: { architecture: otherArchitecture, os: 'linux' },
      },
    ],
  });
}

function hostArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch === 'ppc64' ? 'ppc64le' : process.arch;
}

function jsonBlob(mediaType: string, value: unknown): SampleBlob {
  return blob(mediaType, Buffer.from(JSON.stringify(value)));
}

function blob(mediaType: string, bytes: Buffer): SampleBlob {
  return { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes };
}
