import { mkdir, rm } from 'node:fs/promises';
import {
  type Descriptor,
  entriesForPlatform,
  type ImageDocument,
  type ImageIndex,
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
import { type RuntimeAdapter, SharedSignals } from '../runtime-adapter.ts';
import { BlobFetch, HttpSource } from './blob-fetch.ts';
import { ImageLayout, openContentCheck } from './image-store.ts';

export interface EmbeddedRuntimeOptions {
  /** Created when missing. Used by one runtime at a time. */
  readonly directory: string;
  readonly mirror: MirrorAddress;
  /** GOARCH, to select from an index. The OS is always Linux. */
  readonly arch: string;
  readonly clock: Clock;
  /** Of one image. Default 3, as in containerd. */
  readonly parallelLayers?: number;
}

/**
 * In this process, for the demo and for rehearsals. It pulls from our registry only, checks every
 * digest, and keeps an OCI image layout. It has no containers.
 */
export function createEmbeddedRuntime(options: EmbeddedRuntimeOptions): RuntimeAdapter {
  const { directory, mirror, clock } = options;
  const source = new HttpSource(mirrorBaseUrl(mirror));
  const pull: PullContext = {
    source,
    blobs: new BlobFetch(directory, source, clock),
    arch: options.arch,
    parallelLayers: options.parallelLayers ?? 3,
  };
  const layout = new ImageLayout(directory);
  const signals = new SharedSignals(() => () => undefined); // it never starts or stops
  let mirrored: ReadonlySet<string> = new Set();
  return {
    storagePaths: async () => [directory],
    close: () => source.close(),
    onChange: (listener) => signals.add(listener),
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
    openContentCheck: () => openContentCheck(layout, (digest) => pull.blobs.pathOf(digest)),
    forgetContent: async (digests) => {
      for (const digest of digests) await rm(pull.blobs.pathOf(digest), { force: true });
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
        await layout.setName({ name, ...(await pullImage(pull, reference, signal)) }, signal);
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

interface PullContext {
  readonly source: HttpSource;
  readonly blobs: BlobFetch;
  readonly arch: string;
  readonly parallelLayers: number;
}

/** Of an index it pulls each manifest that CRI-O or containerd would choose. */
async function pullImage(context: PullContext, reference: Reference, signal: AbortSignal) {
  const wanted = reference.digest ?? reference.tag ?? 'latest';
  const target = await fetchManifest(context, reference, wanted, signal);
  const images = target.parsed.kind === 'index' ? await fetchFromIndex(context, reference, target.parsed, signal) : [];
  for (const { descriptor, parsed } of images.length === 0 ? [target] : images) {
    if (parsed.kind === 'index')
      throw pullError('runtime/pull-failed', `${descriptor.digest} is an index within an index`);
    await context.blobs.fetch(reference, parsed.config, signal);
    await forEachLimited(parsed.layers, context.parallelLayers, signal, (layer, inner) =>
      context.blobs.fetch(reference, layer, inner),
    );
  }
  const [image = target] = images;
  const imageId = image.parsed.kind === 'index' ? image.descriptor.digest : image.parsed.config.digest;
  return { target: target.descriptor, manifest: image.descriptor, imageId };
}

interface FetchedManifest {
  readonly descriptor: Descriptor;
  readonly parsed: ImageDocument;
}

async function fetchFromIndex(
  context: PullContext,
  reference: Reference,
  index: ImageIndex,
  signal: AbortSignal,
  depth = 1,
): Promise<FetchedManifest[]> {
  const images: FetchedManifest[] = [];
  for (const { digest } of entriesForPlatform(index, context.arch)) {
    const found = await fetchManifest(context, reference, digest, signal);
    if (found.parsed.kind === 'manifest') images.push(found);
    else if (depth === limits.indexDepth) throw pullError('runtime/unfit-image', `${digest} is an index too deep`);
    else images.push(...(await fetchFromIndex(context, reference, found.parsed, signal, depth + 1)));
  }
  if (images.length > 0) return images;
  throw pullError('runtime/not-found', `${reference.repository} has no image for linux/${context.arch}`);
}

async function fetchManifest(
  { source, blobs }: PullContext,
  reference: Reference,
  wanted: Digest | string,
  signal: AbortSignal,
): Promise<FetchedManifest> {
  const { mediaType, bytes } = await source.manifest(reference, wanted, signal);
  const digest = digestOf(bytes);
  if (wanted.includes(':') && wanted !== digest) {
    throw pullError(
      'runtime/digest-mismatch',
      `Manifest ${wanted} of ${reference.repository} has the digest ${shortDigest(digest)}`,
    );
  }
  const parsed = parseFetched(mediaType, bytes, `${reference.repository}@${digest}`);
  await writeDurably({ path: blobs.pathOf(digest) }, bytes);
  return { descriptor: { mediaType, digest, size: bytes.length }, parsed };
}

/** @throws AppError `runtime/pull-failed` */
function parseFetched(mediaType: string, bytes: Buffer, what: string): ImageDocument {
  try {
    return parseImageDocument(bytes, what, 'bundle/inconsistent', mediaType);
  } catch (error) {
    throw pullError('runtime/pull-failed', `No image manifest was sent: ${reasonOf(error)}`, error);
  }
}
