import { mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Descriptor,
  type ImageDocument,
  type ImageManifest,
  manifestsForPlatform,
  parseImageDocument,
} from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { openRegularFile } from '../../bundle/read/open-file.ts';
import { type Digest, digestFromHex, hexOf, isDigest } from '../../domain/model/digest.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { layoutBlobPath, REF_NAME } from '../images/layout-source.ts';

export interface StoredRepository {
  /** The name has no registry: `openshift/release-images`. */
  readonly name: string;
  readonly tags: ReadonlyMap<string, Digest>;
  /** Manifests and indexes, tagged or not. */
  readonly revisions: ReadonlySet<Digest>;
}

/** A distribution registry (filesystem driver, `docker/registry/v2`). It is not trusted. */
export interface RegistryStorage {
  readonly repositories: readonly StoredRepository[];
  readonly blobs: ReadonlyMap<Digest, { readonly path: string; readonly sizeBytes: number }>;
}

/** Entries of a folder; a limit against endless media. */
const MAX_ENTRIES = 100_000;
const MAX_DEPTH = 12;
const MAX_LINK_BYTES = 256;

/** @throws AppError `bundle/source` when it has links, is damaged or too large */
export async function readRegistryStorage(root: string, signal: AbortSignal): Promise<RegistryStorage> {
  const repositories: StoredRepository[] = [];
  await findRepositories(join(root, 'repositories'), '', repositories, signal);
  return { repositories, blobs: await listBlobs(join(root, 'blobs', 'sha256'), signal) };
}

async function findRepositories(
  folder: string,
  name: string,
  found: StoredRepository[],
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const parts = name.split('/');
  if (parts.length > MAX_DEPTH) throw bad(folder, 'its repositories are nested too deep');
  for (const entry of await foldersIn(folder)) {
    if (entry === '_manifests') found.push(await readRepository(join(folder, entry), name));
    else if (!entry.startsWith('_')) {
      await findRepositories(join(folder, entry), name === '' ? entry : `${name}/${entry}`, found, signal);
    }
  }
  if (found.length > limits.images) throw bad(folder, `it has more than ${limits.images} repositories`);
}

async function readRepository(manifests: string, name: string): Promise<StoredRepository> {
  const tags = new Map<string, Digest>();
  for (const tag of await foldersIn(join(manifests, 'tags'))) {
    tags.set(tag, await readLink(join(manifests, 'tags', tag, 'current', 'link')));
  }
  const revisions = new Set<Digest>(tags.values());
  for (const hex of await foldersIn(join(manifests, 'revisions', 'sha256'))) {
    const link = join(manifests, 'revisions', 'sha256', hex, 'link');
    const digest = await readLink(link);
    if (hexOf(digest) !== hex) throw bad(link, `it names ${digest}, but lies in the folder ${hex}`);
    revisions.add(digest);
  }
  return { name, tags, revisions };
}

async function readLink(path: string): Promise<Digest> {
  const opened = await openSource(path);
  if (opened === undefined) throw bad(path, 'it is absent');
  try {
    if (opened.sizeBytes > MAX_LINK_BYTES) throw bad(path, 'it is too large to be a digest');
    const text = (await opened.handle.readFile('utf8')).trim();
    if (isDigest(text)) return text;
  } finally {
    await opened.handle.close();
  }
  throw bad(path, 'it has no sha256 digest');
}

async function listBlobs(folder: string, signal: AbortSignal): Promise<RegistryStorage['blobs']> {
  const blobs = new Map<Digest, { readonly path: string; readonly sizeBytes: number }>();
  for (const start of await foldersIn(folder)) {
    signal.throwIfAborted();
    for (const hex of await foldersIn(join(folder, start))) {
      if (!/^[0-9a-f]{64}$/.test(hex)) continue;
      const path = join(folder, start, hex, 'data');
      const opened = await openSource(path);
      if (opened === undefined) continue;
      await opened.handle.close();
      blobs.set(digestFromHex(hex), { path, sizeBytes: opened.sizeBytes });
    }
  }
  return blobs;
}

/** @throws AppError `bundle/source` (`reject`) for a link, a folder or a device */
async function openSource(path: string) {
  return openRegularFile(path).catch((cause: unknown) => {
    throw bad(path, 'it can not be read as a regular file, and links are not followed', cause);
  });
}

/** Sorted. A missing folder is empty. @throws AppError `bundle/source` for a link */
async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  if (entries.length > MAX_ENTRIES) throw bad(folder, `it has more than ${MAX_ENTRIES} entries`);
  const link = entries.find((entry) => entry.isSymbolicLink());
  if (link !== undefined) throw bad(join(folder, link.name), 'it is a link, and links are not followed');
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

function bad(path: string, why: string, cause?: unknown) {
  return bundleError('bundle/source', `${path}: ${why}`, { cause });
}

interface StoredDocument {
  readonly descriptor: Descriptor;
  readonly document: ImageDocument;
}

/** `sha256-<hex>.sig` and the like. */
const ATTACHED_TAG = /^sha256-[0-9a-f]{64}\.[a-z]+$/;

export function isAttachedTag(tag: string): boolean {
  return ATTACHED_TAG.test(tag);
}

/** @throws AppError `bundle/source` when absent, damaged, or neither manifest nor index */
export async function readStored(storage: RegistryStorage, digest: Digest, what: string): Promise<StoredDocument> {
  const bytes = await readStoredBytes(storage, digest, what);
  const document = parseImageDocument(bytes, `${what}, ${digest}`, 'bundle/source');
  return { document, descriptor: { mediaType: document.mediaType, digest, size: bytes.length } };
}

export async function readStoredBytes(storage: RegistryStorage, digest: Digest, what: string): Promise<Buffer> {
  const blob = storage.blobs.get(digest);
  if (blob === undefined) throw lacking(what, digest);
  if (blob.sizeBytes > limits.manifestBytes) {
    throw bundleError('bundle/source', `${what}: ${digest} has ${blob.sizeBytes} bytes, too many for a document`);
  }
  const bytes = await readFile(blob.path);
  if (digestOf(bytes) === digest) return bytes;
  const message = `${what}: ${blob.path} is damaged, its digest is not ${digest}: copy the medium again`;
  throw bundleError('bundle/source', message);
}

/** @throws AppError `bundle/source` also when a blob is absent or has another size */
export async function checkStoredImage(
  storage: RegistryStorage,
  digest: Digest,
  arch: string,
  what: string,
): Promise<ImageManifest> {
  const { document } = await readStored(storage, digest, what);
  if (document.kind === 'index') {
    const readIndex = async (entry: Descriptor) => {
      const inner = (await readStored(storage, entry.digest, what)).document;
      if (inner.kind === 'index') return inner;
      throw bundleError('bundle/source', `${what}: ${entry.digest} is listed as an index, and is a manifest`);
    };
    const [first, ...others] = await manifestsForPlatform(document, arch, `${what}: ${digest}`, readIndex);
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
 * An OCI layout with all blobs and all readable manifests. Attached tags keep their names.
 *
 * @param isOwn the storage is a copy: its blobs are moved; otherwise the layout links to them
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

/** An unreadable revision is left out: an image that needs it reports it. */
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
      entries.set(`${digest} ${tag ?? ''}`, defined({ ...found.descriptor, annotations }));
    }
  }
  return [...entries.values()];
}

function lacking(what: string, digest: Digest) {
  return bundleError('bundle/source', `${what}: blob ${digest} is not on the medium: copy the medium again`);
}
