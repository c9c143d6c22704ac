import { mkdir, rm } from 'node:fs/promises';
import {
  type Descriptor,
  entriesForPlatform,
  type ImageDocument,
  parseImageDocument,
} from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, shortDigest } from '../../domain/model/digest.ts';
import { parseReference, type Reference } from '../../domain/model/reference.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { writeDurably } from '../config/config-file.ts';
import { type MirrorAddress, mirrorBaseUrl } from '../config/toml-text.ts';
import { filesystemAt } from '../cri/observe.ts';
import { pullError, toRuntimeError } from '../cri/runtime-error.ts';
import type { RuntimeAdapter } from '../runtime-adapter.ts';
import { BlobFetch } from './blob-fetch.ts';
import { ImageLayout, openContentCheck } from './image-store.ts';

export interface EmbeddedRuntimeOptions {
  /** The folder is created when missing. One runtime uses it at a time. */
  readonly directory: string;
  readonly mirror: MirrorAddress;
  /** GOARCH, to select from an index. The OS is always Linux. */
  readonly arch: string;
  readonly clock: Clock;
}

/** Layers of one image that are pulled at a time, as in containerd. */
const PARALLEL_LAYERS = 3;

/**
 * A runtime in this process, for the demo and for rehearsals. It pulls from our registry only,
 * checks every digest, and keeps an OCI image layout. It has no containers.
 */
export function createEmbeddedRuntime(options: EmbeddedRuntimeOptions): RuntimeAdapter {
  const { directory, mirror, arch, clock } = options;
  const blobs = new BlobFetch(directory, mirrorBaseUrl(mirror), clock);
  const layout = new ImageLayout(directory);
  let mirrored: ReadonlySet<string> = new Set();
  return {
    storagePaths: async () => [directory],
    close: () => blobs.close(),
    onChange: () => () => undefined, // it never starts or stops
    observe: async (signal) => {
      signal.throwIfAborted();
      try {
        return { ...(await observeLayout(layout, directory)), renderedMirrors: [...mirrored].sort() };
      } catch (error) {
        return { kind: 'unreachable', reason: reasonOf(error) };
      }
    },
    applyPins: (references, _options, signal) => layout.setPins(references, signal),
    applyMirrors: async (mirrors) => {
      mirrored = new Set(mirrors.map(({ repository }) => repository));
    },
    image: (name, signal) => untilAborted(layout.find(name), signal),
    addTag: (tag, reference, signal) => layout.addName(tag, reference, signal),
    removeTag: (tag, signal) => layout.removeName(tag, signal),
    containers: async () => [], // it runs no containers
    containerImages: async () => [],
    removeContainer: async () => undefined,
    removeImage: (imageId, signal) => layout.removeImage(imageId, signal),
    openContentCheck: () => openContentCheck(layout, (digest) => blobs.pathOf(digest)),
    forgetContent: async (digests) => {
      for (const digest of digests) await rm(blobs.pathOf(digest), { force: true });
    },
    pull: async (name, signal) => {
      try {
        const reference = parseReference(name);
        if (!mirrored.has(reference.repository)) {
          throw pullError(
            'runtime/pull-failed',
            `${name} can't be pulled: no mirror is set for ${reference.repository}`,
          );
        }
        await layout.setName(name, await pullImage(blobs, arch, reference, signal), signal);
      } catch (error) {
        throw toRuntimeError(error, `Pull of ${name}`, signal);
      }
    },
  };
}

async function observeLayout(layout: ImageLayout, directory: string) {
  await mkdir(directory, { recursive: true });
  const [images, renderedPins, filesystem] = await Promise.all([layout.list(), layout.pins(), filesystemAt(directory)]);
  const layerStorage = 'compressed';
  return { kind: 'reachable', name: 'embedded', images, filesystem, layerStorage, renderedPins } as const;
}

async function pullImage(blobs: BlobFetch, arch: string, reference: Reference, signal: AbortSignal) {
  const target = await fetchManifest(blobs, reference, reference.digest ?? reference.tag ?? 'latest', signal);
  const images = await manifestsOf(target, arch, (digest) => fetchManifest(blobs, reference, digest, signal));
  for (const { config, layers } of images) {
    await blobs.fetch(reference, config, signal);
    await forEachLimited(layers, PARALLEL_LAYERS, signal, (layer, inner) => blobs.fetch(reference, layer, inner));
  }
  const [{ digest, config }] = images;
  return { target, manifest: digest, imageId: config.digest };
}

type Fetched = Descriptor & ImageDocument;
type Manifest = Extract<Fetched, { readonly kind: 'manifest' }>;

/** The manifest itself, or each manifest of an index that CRI-O or containerd would choose. */
async function manifestsOf(
  found: Fetched,
  arch: string,
  fetched: (digest: Digest) => Promise<Fetched>,
  depth = 0,
): Promise<[Manifest, ...Manifest[]]> {
  if (found.kind === 'manifest') return [found];
  if (depth === limits.indexDepth) throw pullError('runtime/unfit-image', `${found.digest} is an index too deep`);
  const images: Manifest[] = [];
  for (const { digest } of entriesForPlatform(found, arch))
    images.push(...(await manifestsOf(await fetched(digest), arch, fetched, depth + 1)));
  const [first, ...others] = images;
  if (first !== undefined) return [first, ...others];
  throw pullError('runtime/not-found', `${found.digest} has no image for linux/${arch}`);
}

/** Writes it to the layout. */
async function fetchManifest(
  blobs: BlobFetch,
  reference: Reference,
  wanted: string,
  signal: AbortSignal,
): Promise<Fetched> {
  const { repository } = reference;
  const { mediaType, bytes } = await blobs.manifest(reference, wanted, signal);
  const digest = digestOf(bytes);
  if (wanted.includes(':') && wanted !== digest) {
    const message = `Manifest ${wanted} of ${repository} has the digest ${shortDigest(digest)}`;
    throw pullError('runtime/digest-mismatch', message);
  }
  const parsed = parsedOf(mediaType, bytes, `${repository}@${digest}`);
  await writeDurably({ path: blobs.pathOf(digest), isVolatile: true }, bytes);
  return { ...parsed, digest, size: bytes.length };
}

/** @throws AppError `runtime/pull-failed` */
function parsedOf(mediaType: string, bytes: Buffer, what: string): ImageDocument {
  try {
    return parseImageDocument(bytes, what, 'bundle/inconsistent', mediaType);
  } catch (error) {
    throw pullError('runtime/pull-failed', `No image manifest was sent: ${reasonOf(error)}`, error);
  }
}
