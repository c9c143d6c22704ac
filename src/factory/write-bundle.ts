import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../bundle/bundle-error.ts';
import { type Descriptor, mediaTypes } from '../bundle/format/oci-schema.ts';
import type { ContentPointer, Contents, Layer } from '../domain/model/bundle.ts';
import { type Digest, hexOf } from '../domain/model/digest.ts';
import { parseReference } from '../domain/model/reference.ts';
import { forEachLimited } from '../platform/async/concurrency.ts';
import { digestOf } from '../platform/digest.ts';
import { writeTreeFile } from '../platform/files/durable-file.ts';
import { REF_NAME } from './images/layout-source.ts';
import type { Plan, PlannedLayer } from './images/plan-images.ts';
import { type BaseBundle, leaveToBase } from './layers/base-bundle.ts';
import { takeLayer } from './layers/layer-file.ts';
import { countBytes, type ProgressListener } from './progress.ts';

export interface WrittenTree {
  readonly contents: Contents;
  readonly contentsPointer: ContentPointer;
  readonly indexPointer: ContentPointer;
}

/**
 * Writes into an empty directory, without the layers of the base. Small files are not synced yet.
 * @throws AppError `bundle/source`; unchanged system errors of the target
 */
export async function writeTree(
  directory: string,
  plan: Plan,
  { onProgress, base }: { readonly onProgress: ProgressListener; readonly base: BaseBundle | undefined },
  signal: AbortSignal,
): Promise<WrittenTree> {
  const blobs = join(directory, 'blobs', 'sha256');
  await mkdir(blobs, { recursive: true });
  const totalBytes = plan.layers.reduce((sum, { digest, size }) => sum + (base?.layers.has(digest) ? 0 : size), 0);
  const onBytes = countBytes('copy', totalBytes, onProgress);
  const layers = await takeLayers(blobs, plan.layers, { onBytes, base }, signal);
  // The empty config of an artifact may be its only layer, too.
  const copied = new Set(plan.layers.map(({ digest }) => digest));
  const documents = [...plan.documents].filter(([digest]) => !copied.has(digest));
  await forEachLimited(documents, SMALL_AT_ONCE, signal, async ([digest, bytes], stopped) => {
    stopped.throwIfAborted();
    await writeTreeFile(join(blobs, hexOf(digest)), bytes);
  });
  const artifacts = plan.artifacts.map(({ sizeBytes: _, ...artifact }) => artifact);
  const images = plan.images.map(({ sizeBytes: _, ...image }) => image);
  const contents = { layers, images, ...(artifacts.length > 0 && { artifacts }) };
  const contentsBytes = jsonBytes(contents);
  const contentsPointer = pointerTo(contentsBytes);
  await writeTreeFile(join(blobs, hexOf(contentsPointer.digest)), contentsBytes);
  const indexBytes = jsonBytes(indexOf(plan));
  await writeTreeFile(join(directory, 'index.json'), indexBytes);
  await writeTreeFile(join(directory, 'oci-layout'), jsonBytes({ imageLayoutVersion: '1.0.0' }));
  return { contents, contentsPointer, indexPointer: pointerTo(indexBytes) };
}

/** Smaller layers are copied side by side: waiting for the disk takes longest. */
const SMALL_BYTES = 1024 * 1024;
const SMALL_AT_ONCE = 8;

/** Keeps their order. @throws AppError `bundle/source` (`reject`) for another unpacked digest */
async function takeLayers(
  blobs: string,
  planned: readonly PlannedLayer[],
  { onBytes, base }: { readonly onBytes: (bytes: number) => void; readonly base: BaseBundle | undefined },
  signal: AbortSignal,
): Promise<Layer[]> {
  const taken = new Map<Digest, Layer>();
  const take = async (layer: PlannedLayer, stopped: AbortSignal) => {
    stopped.throwIfAborted();
    const { digest, diffId, what } = layer;
    const known = base?.layers.get(digest);
    const found =
      known === undefined
        ? await takeLayer(layer, join(blobs, hexOf(digest)), onBytes, stopped)
        : leaveToBase(layer, known);
    taken.set(digest, found);
    if (diffId === undefined || found.diffId === diffId) return;
    const message = `${what} unpacks to ${found.diffId}, and the image's config says ${diffId}`;
    throw bundleError('bundle/source', message);
  };
  const isSmall = ({ size }: PlannedLayer) => size < SMALL_BYTES;
  for (const layer of planned.filter((one) => !isSmall(one))) await take(layer, signal);
  await forEachLimited(planned.filter(isSmall), SMALL_AT_ONCE, signal, take);
  return planned.flatMap(({ digest }) => taken.get(digest) ?? []);
}

/** An entry for each name, so that any OCI tool finds images and signatures. */
function indexOf({ images, artifacts }: Plan) {
  const manifests = [...images, ...artifacts].flatMap(({ reference, digest, mediaType, sizeBytes, tags }) =>
    (tags.length === 0 ? [reference] : tags).map((name) => namedEntry(name, { mediaType, digest, size: sizeBytes })),
  );
  const attached = images.flatMap(({ reference, attached = [] }) => {
    const { repository } = parseReference(reference);
    return attached.map(({ tag, ...of }) => [`${repository}:${tag}`, of] as const);
  });
  // Two images of a repository may share signatures.
  for (const [name, of] of new Map(attached)) manifests.push(namedEntry(name, of));
  return { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests };
}

function namedEntry(name: string, { mediaType, digest, size }: Descriptor) {
  return { mediaType, digest, size, annotations: { [REF_NAME]: name } };
}

/** Bytes to write, without layers that are only moved and those of the base. */
export function neededBytes({ layers, documents }: Plan, base: BaseBundle | undefined): number {
  const ofDocuments = [...documents.values()].reduce((sum, bytes) => sum + bytes.length, 0);
  return layers
    .filter((layer) => !layer.isDisposable && !base?.layers.has(layer.digest))
    .reduce((sum, layer) => sum + layer.size, ofDocuments);
}

function pointerTo(bytes: Buffer): { digest: Digest; size: number } {
  return { digest: digestOf(bytes), size: bytes.length };
}

/** JSON with one newline at its end, members in the order of their creation. */
export function jsonBytes(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}
