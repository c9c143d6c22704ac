import type { Artifact, AttachedTag, ContentPointer, Contents, Image, Payload } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { MissingBlob } from '../../domain/model/medium.ts';
import { inOrder } from '../../platform/async/concurrency.ts';
import { bundleError } from '../bundle-error.ts';
import type { DocumentName } from '../documents/document-task.ts';
import type { Documents } from '../documents/worker-documents.ts';
import {
  configMediaTypes,
  type Descriptor,
  entriesForPlatform,
  type ImageIndex,
  type ImageManifest,
  type IndexEntry,
  indexMediaTypes,
} from '../format/oci-schema.ts';
import { referrersTagOf } from '../format/referrers.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from '../read/bundle-reader.ts';
import { type ExpectedBlob, readBlob, sizeMisfit } from '../read/open-file.ts';

/** Concurrent small reads of at most 4 MiB, so that neither the medium nor this process waits. */
const IMAGES_AT_ONCE = 8;
const BLOBS_AT_ONCE = 32;

export interface WalkedImages {
  /** Manifests, indexes, configs and documents of attached tags, each once, in order. */
  readonly documents: readonly Digest[];
  readonly missing: readonly MissingBlob[];
  /** Documents, layers and attachments whose size is known. */
  readonly blobs: ReadonlyMap<Digest, number>;
}

/**
 * Walks from `index.json` over every image and artifact to its layers. A missing document ends the
 * walk below it.
 * @throws AppError `bundle/index` an image isn't listed; `bundle/inconsistent` `contents.json`
 * contradicts the manifests; `media/read`, `media/gone`
 */
export async function walkImages(
  reader: BundleReader,
  bundle: Walkable,
  parsers: Documents,
  signal: AbortSignal,
): Promise<WalkedImages> {
  const documents = new Set<Digest>();
  const missing = new Map<Digest, MissingBlob>();
  const blobs = new Map<Digest, number>();
  const { payload, contents } = bundle;
  const listed = new Map(bundle.index.manifests.map((entry) => [entry.digest, entry]));
  const walkOne = (image: Image) => walkImage(new Walk(reader, parsers, signal), image, listed, bundle);
  const record = (walked: readonly WalkedDocument[]) => {
    for (const { digest, sizeBytes, lacks } of walked) {
      documents.add(digest);
      blobs.set(digest, sizeBytes);
      if (lacks !== undefined) missing.set(digest, lacks);
    }
  };
  for await (const walked of inOrder(contents.images, IMAGES_AT_ONCE, walkOne)) record(walked);
  for (const artifact of contents.artifacts ?? []) {
    const walk = new Walk(reader, parsers, signal);
    await walkArtifact(walk, artifact, listed, contents);
    record(walk.documents);
  }
  for (const { digest, sizeBytes } of othersOf(bundle)) blobs.set(digest, sizeBytes);
  for (const lacking of await findMissing(reader, bundle, signal)) missing.set(lacking.digest, lacking);
  const result = { documents: [...documents], missing: [...missing.values()], blobs };
  checkTotals(result, payload);
  return result;
}

/** A blob of another size is missing too. @throws AppError `media/read`, `media/gone` */
export async function findMissing(
  reader: Pick<BundleReader, 'sizeOf'>,
  bundle: Pick<Walkable, 'payload' | 'contents'>,
  signal: AbortSignal,
): Promise<MissingBlob[]> {
  const missing: MissingBlob[] = [];
  const misfits = inOrder(othersOf(bundle), BLOBS_AT_ONCE, async (blob) => ({
    blob,
    misfit: await sizeMisfit(reader, blob, signal),
  }));
  for await (const { blob, misfit } of misfits) {
    const isLeft = blob.inBase === true && misfit?.why === 'absent';
    if (misfit !== undefined) missing.push(isLeft ? { digest: blob.digest, why: 'in-base' } : misfit);
  }
  return missing;
}

function othersOf({
  payload,
  contents,
}: Pick<Walkable, 'payload' | 'contents'>): readonly (ExpectedBlob & { readonly inBase?: true })[] {
  const attached = (payload.attachments ?? []).map(({ digest, size }) => ({ digest, sizeBytes: size }));
  return [...contents.layers, ...attached];
}

interface Walkable {
  readonly payload: Payload;
  readonly contents: Contents;
  readonly index: ImageIndex;
}

/** It `lacks` when it is missing. */
interface WalkedDocument extends ExpectedBlob {
  readonly lacks: MissingBlob | undefined;
}

/** The walk through one image. */
class Walk {
  readonly documents: WalkedDocument[] = [];

  constructor(
    private readonly reader: BundleReader,
    readonly parsers: Documents,
    readonly signal: AbortSignal,
  ) {}

  /** Returns undefined when the document is missing, and records that. */
  async document({ digest, size: sizeBytes }: ContentPointer, what: string): Promise<Buffer | undefined> {
    if (sizeBytes > limits.manifestBytes) {
      const message = `${what} has ${sizeBytes} bytes, and ${limits.manifestBytes} are allowed`;
      throw bundleError('bundle/inconsistent', message);
    }
    const read = await readBlob(this.reader, { digest, sizeBytes }, this.signal);
    this.documents.push({ digest, sizeBytes, lacks: read.kind === 'read' ? undefined : read.missing });
    return read.kind === 'read' ? read.bytes : undefined;
  }
}

async function walkImage(
  walk: Walk,
  image: Image,
  listed: ReadonlyMap<Digest, IndexEntry>,
  { payload, contents }: Walkable,
): Promise<readonly WalkedDocument[]> {
  const entry = entryOf(image, listed);
  const { manifests, isWhole } = await walkToManifests(walk, image, entry, payload.arch);
  const subjects = new Set([image.digest, ...manifests.map(({ digest }) => digest)]);
  for (const attached of image.attached ?? []) {
    await walkAttached(walk, image, attached, isWhole ? subjects : undefined);
  }
  if (!isWhole) return walk.documents;
  let at = 0;
  for (const { manifest } of manifests) {
    const layers = image.layers.slice(at, at + manifest.layers.length);
    at += layers.length;
    checkLayers(image, layers, manifest, contents);
    await walkConfig(walk, { ...image, layers }, manifest, contents);
  }
  return walk.documents;
}

function entryOf({ digest, mediaType, reference }: Named, listed: ReadonlyMap<Digest, IndexEntry>): IndexEntry {
  const entry = listed.get(digest);
  if (entry?.mediaType === mediaType) return entry;
  throw bundleError('bundle/index', `index.json does not list ${reference} as ${mediaType}`);
}

/** Its config may have any form. */
async function walkArtifact(
  walk: Walk,
  artifact: Artifact,
  listed: ReadonlyMap<Digest, IndexEntry>,
  contents: Contents,
): Promise<void> {
  const what = `manifest ${artifact.digest} of ${artifact.reference}`;
  const bytes = await walk.document(entryOf(artifact, listed), what);
  await walk.document(artifact.config, `config ${artifact.config.digest} of ${artifact.reference}`);
  if (bytes === undefined) return;
  const manifest = await walk.parsers.manifest(bytes, inconsistent(what), walk.signal);
  const { config, layers } = manifest;
  if (config.digest !== artifact.config.digest || config.size !== artifact.config.size) {
    throw disagrees(artifact, `its config is ${artifact.config.digest}, its manifest ${config.digest}`);
  }
  if (layers.length !== artifact.layers.length) {
    throw disagrees(artifact, `${artifact.layers.length} layers, its manifest ${layers.length}`);
  }
  checkEach(artifact, artifact.layers, manifest, contents);
}

interface WalkedManifests {
  readonly manifests: readonly { readonly digest: Digest; readonly manifest: ImageManifest }[];
  readonly isWhole: boolean;
}

/** The manifests that runtimes choose. */
async function walkToManifests(walk: Walk, image: Image, entry: Descriptor, arch: string): Promise<WalkedManifests> {
  const manifests: { digest: Digest; manifest: ImageManifest }[] = [];
  const what = `manifest ${entry.digest} of ${image.reference}`;
  const bytes = await walk.document(entry, what);
  if (bytes === undefined) return { manifests, isWhole: false };
  if (!indexMediaTypes.has(entry.mediaType)) {
    const manifest = await walk.parsers.manifest(bytes, inconsistent(what), walk.signal);
    checkCount(image, manifest.layers.length);
    return { manifests: [{ digest: entry.digest, manifest }], isWhole: true };
  }
  const index = await walk.parsers.index(bytes, inconsistent(what), walk.signal);
  const isWhole = await walkIndex(walk, { image, arch, manifests, index, what, depth: 1 });
  if (isWhole) checkCount(image, layersIn(manifests));
  return { manifests, isWhole };
}

interface IndexWalk {
  readonly image: Image;
  readonly arch: string;
  /** Found so far; more are added. */
  readonly manifests: { digest: Digest; manifest: ImageManifest }[];
  readonly index: ImageIndex;
  readonly what: string;
  readonly depth: number;
}

/** Returns false when a document is missing. */
async function walkIndex(walk: Walk, { index, what, depth, ...under }: IndexWalk): Promise<boolean> {
  const { image, arch, manifests } = under;
  const entries = entriesForPlatform(index, arch);
  if (entries.length === 0) throw bundleError('bundle/inconsistent', `${what} has no manifest for linux/${arch}`);
  for (const child of entries) {
    const isIndex = indexMediaTypes.has(child.mediaType);
    const childName = `${isIndex ? 'index' : 'manifest'} ${child.digest} of ${image.reference}`;
    if (isIndex && depth === limits.indexDepth)
      throw bundleError('bundle/inconsistent', `${childName} is below ${depth} other indexes, which is too deep`);
    if (manifests.length === limits.manifestsPerImage)
      throw bundleError('bundle/inconsistent', `${what} names too many manifests for linux/${arch}`);
    const bytes = await walk.document(child, childName);
    if (bytes === undefined) return false;
    if (isIndex) {
      const inner = await walk.parsers.index(bytes, inconsistent(childName), walk.signal);
      if (!(await walkIndex(walk, { ...under, index: inner, what: childName, depth: depth + 1 }))) return false;
    } else {
      const manifest = await walk.parsers.manifest(bytes, inconsistent(childName), walk.signal);
      manifests.push({ digest: child.digest, manifest });
    }
  }
  return true;
}

function layersIn(manifests: WalkedManifests['manifests']): number {
  return manifests.reduce((sum, { manifest }) => sum + manifest.layers.length, 0);
}

function checkCount(image: Image, layers: number): void {
  if (layers !== image.layers.length) {
    throw disagrees(image, `${image.layers.length} layers, its manifest ${layers}`);
  }
}

/** @param subjects digests that the tag may describe; undefined while the manifest is missing */
async function walkAttached(
  walk: Walk,
  image: Image,
  { tag, digest, size, mediaType, blobs }: AttachedTag,
  subjects: ReadonlySet<Digest> | undefined,
): Promise<void> {
  const what = `${tag} of ${image.reference}`;
  if (subjects !== undefined && ![...subjects].some((subject) => tag.split('.')[0] === referrersTagOf(subject))) {
    const message = `contents.json: ${tag} describes neither ${image.reference} nor its manifest`;
    throw bundleError('bundle/inconsistent', message);
  }
  const named = new Map<Digest, number>();
  const isWhole = await collectNamed(walk, { digest, size, mediaType }, what, named);
  if (isWhole && (blobs.length !== named.size || blobs.some((blob) => named.get(blob.digest) !== blob.size))) {
    throw disagrees(image, `other blobs for ${tag} than its manifests`);
  }
  for (const blob of blobs) await walk.document(blob, `blob ${blob.digest} of ${what}`);
}

/** Collects the names in a manifest, or in an index and its manifests. False: one is missing. */
async function collectNamed(
  walk: Walk,
  of: ContentPointer & { readonly mediaType?: string },
  what: string,
  named: Map<Digest, number>,
): Promise<boolean> {
  const name = `manifest ${of.digest} of ${what}`;
  const bytes = await walk.document(of, name);
  if (bytes === undefined) return false;
  const isList = of.mediaType !== undefined && indexMediaTypes.has(of.mediaType);
  if (!isList) {
    const { config, layers } = await walk.parsers.manifest(bytes, inconsistent(name), walk.signal);
    for (const blob of [config, ...layers]) named.set(blob.digest, blob.size);
    return true;
  }
  const { manifests } = await walk.parsers.index(bytes, inconsistent(name), walk.signal);
  if (manifests.length > limits.attachedBlobs)
    throw bundleError('bundle/inconsistent', `${name} names too many manifests`);
  let isWhole = true;
  for (const { digest, size } of manifests) {
    named.set(digest, size);
    isWhole = (await collectNamed(walk, { digest, size }, what, named)) && isWhole;
  }
  return isWhole;
}

function checkLayers(image: Image, layers: readonly number[], manifest: ImageManifest, contents: Contents): void {
  if (manifest.layers.length > limits.layersPerImage) {
    const why = `has ${manifest.layers.length} layers, and ${limits.layersPerImage} are allowed`;
    throw bundleError('bundle/inconsistent', `a manifest of ${image.reference} ${why}`);
  }
  checkEach(image, layers, manifest, contents);
}

function checkEach(image: Named, layers: readonly number[], manifest: ImageManifest, contents: Contents): void {
  manifest.layers.forEach((layer, at) => {
    const listed = contents.layers[layers[at] ?? -1];
    if (listed?.digest !== layer.digest || listed.sizeBytes !== layer.size) {
      throw disagrees(
        image,
        `layer ${at} is ${listed?.digest} of ${listed?.sizeBytes} bytes, its manifest ${layer.digest} of ${layer.size}`,
      );
    }
  });
}

async function walkConfig(walk: Walk, image: Image, manifest: ImageManifest, contents: Contents): Promise<void> {
  const what = `config ${manifest.config.digest} of ${image.reference}`;
  if (!configMediaTypes.has(manifest.config.mediaType)) {
    const message = `${what} is not an image config but ${JSON.stringify(manifest.config.mediaType)}`;
    throw bundleError('bundle/inconsistent', message);
  }
  const bytes = await walk.document(manifest.config, what);
  if (bytes === undefined) return;
  const { rootfs } = await walk.parsers.config(bytes, inconsistent(what), walk.signal);
  const { diff_ids: diffIds } = rootfs;
  const listedIds = image.layers.map((at) => contents.layers[at]?.diffId);
  if (diffIds.length !== listedIds.length || diffIds.some((diffId, at) => diffId !== listedIds[at])) {
    throw disagrees(image, 'other diffIds than its config');
  }
}

/** Totals are known only with all documents, since documents refer to others. */
function checkTotals({ documents, missing, blobs }: WalkedImages, { totals, attachments }: Payload): void {
  const known = new Set(documents);
  if (missing.some((blob) => known.has(blob.digest))) return;
  const attached = new Set((attachments ?? []).map((attachment) => attachment.digest));
  const sizes = [...blobs].filter(([digest]) => !attached.has(digest)).map(([, sizeBytes]) => sizeBytes);
  const sizeBytes = sizes.reduce((sum, size) => sum + size, 0);
  if (sizes.length !== totals.blobs || sizeBytes !== totals.sizeBytes) {
    const message = `the payload says totals of ${totals.blobs} blobs with ${totals.sizeBytes} bytes, the images make ${sizes.length} with ${sizeBytes}`;
    throw bundleError('bundle/inconsistent', message);
  }
}

function inconsistent(what: string): DocumentName {
  return { what, code: 'bundle/inconsistent' };
}

type Named = Pick<Image, 'reference' | 'digest' | 'mediaType'>;

function disagrees(image: Named, how: string) {
  return bundleError('bundle/inconsistent', `contents.json disagrees with ${image.reference}: it says ${how}`);
}
