import { mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Digest } from '../../../domain/model/digest.ts';
import { digestOf } from '../../../platform/digest.ts';
import { bundleError } from '../../bundle-error.ts';
import {
  type Descriptor,
  type ImageDocument,
  type ImageManifest,
  manifestsForPlatform,
  parseImageDocument,
} from '../../format/oci-schema.ts';
import { limits } from '../../limits.ts';
import { layoutBlobPath, REF_NAME } from '../images/layout-source.ts';
import type { RegistryStorage } from './registry-storage.ts';

/** A document of the storage whose digest is right. */
export interface StoredDocument {
  readonly descriptor: Descriptor;
  readonly document: ImageDocument;
}

/** `sha256-<hex>.sig` and the like. */
const ATTACHED_TAG = /^sha256-[0-9a-f]{64}\.[a-z]+$/;

/** Whether a tag names something that belongs to an image, such as its signature. */
export function isAttachedTag(tag: string): boolean {
  return ATTACHED_TAG.test(tag);
}

/**
 * Reads a manifest or an index of the storage.
 *
 * @throws AppError `bundle/source` (`reject`) when it is absent, damaged, or neither of both
 */
export async function readStored(storage: RegistryStorage, digest: Digest, what: string): Promise<StoredDocument> {
  const bytes = await readStoredBytes(storage, digest, what);
  const document = parseImageDocument(bytes, `${what}, ${digest}`, 'bundle/source');
  return { document, descriptor: { mediaType: document.mediaType, digest, size: bytes.length } };
}

/** The bytes of a small blob. @throws AppError as {@link readStored} */
export async function readStoredBytes(storage: RegistryStorage, digest: Digest, what: string): Promise<Buffer> {
  const blob = storage.blobs.get(digest);
  if (blob === undefined) throw lacking(what, digest);
  if (blob.sizeBytes > limits.manifestBytes) {
    throw bundleError('bundle/source', `${what}: ${digest} has ${blob.sizeBytes} bytes, too many for a document`);
  }
  const bytes = await readFile(blob.path);
  if (digestOf(bytes) === digest) return bytes;
  throw bundleError(
    'bundle/source',
    `${what}: ${blob.path} is damaged, its digest is not ${digest}: copy the medium again`,
  );
}

/**
 * The manifest for `arch` of an image. @throws AppError `bundle/source` (`reject`) also when a blob
 * of the image is absent or has another size
 */
export async function checkStoredImage(
  storage: RegistryStorage,
  digest: Digest,
  arch: string,
  what: string,
): Promise<ImageManifest> {
  const { document } = await readStored(storage, digest, what);
  if (document.kind === 'index') {
    const [first, ...others] = manifestsForPlatform(document, arch, `${what}: ${digest}`);
    for (const other of others) await checkStoredImage(storage, other.digest, arch, what);
    if (first !== undefined) return checkStoredImage(storage, first.digest, arch, what);
    throw lacking(what, digest);
  }
  for (const blob of [document.config, ...document.layers]) {
    const found = storage.blobs.get(blob.digest);
    if (found === undefined) throw lacking(what, blob.digest);
    if (found.sizeBytes === blob.size) continue;
    const sizes = `it has ${found.sizeBytes} bytes, and ${blob.size} were expected`;
    throw bundleError('bundle/source', `${what}: ${found.path} is damaged: ${sizes}; copy the medium again`);
  }
  return document;
}

/**
 * Makes an OCI image layout of the storage in a new folder: all its blobs, and an index with all
 * manifests that can be read. Attached tags have their names in it.
 *
 * @param isOwn the storage is a copy, so its blobs are moved; otherwise the layout links to them.
 */
export async function layoutOfStorage(
  storage: RegistryStorage,
  directory: string,
  isOwn: boolean,
  signal: AbortSignal,
): Promise<void> {
  const manifests = await indexEntries(storage, signal);
  await mkdir(join(directory, 'blobs', 'sha256'), { recursive: true });
  for (const [digest, { path }] of storage.blobs) {
    signal.throwIfAborted();
    const to = layoutBlobPath(directory, digest);
    await (isOwn ? rename(path, to) : symlink(resolve(path), to));
  }
  await writeFile(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
}

/** A revision that can't be read is left out: it is reported where it is needed. */
async function indexEntries({ repositories, blobs }: RegistryStorage, signal: AbortSignal): Promise<unknown[]> {
  const entries = new Map<string, unknown>();
  for (const { name, tags, revisions } of repositories) {
    const attached = new Map([...tags].filter(([tag]) => isAttachedTag(tag)).map(([tag, digest]) => [digest, tag]));
    for (const digest of revisions) {
      signal.throwIfAborted();
      const found = await readStored({ repositories, blobs }, digest, name).catch(() => undefined);
      if (found === undefined) continue;
      const tag = attached.get(digest);
      const annotations = tag === undefined ? undefined : { [REF_NAME]: `${name}:${tag}` };
      entries.set(`${digest} ${tag ?? ''}`, { ...found.descriptor, ...(annotations !== undefined && { annotations }) });
    }
  }
  return [...entries.values()];
}

function lacking(what: string, digest: Digest) {
  return bundleError('bundle/source', `${what}: blob ${digest} is not on the medium: copy the medium again`);
}
