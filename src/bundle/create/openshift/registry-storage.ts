import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf, isDigest } from '../../../domain/model/digest.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';
import { openRegularFile } from '../../read/open-file.ts';

/** One repository in the storage of a registry. */
export interface StoredRepository {
  /** Without a registry: `openshift/release-images`. */
  readonly name: string;
  readonly tags: ReadonlyMap<string, Digest>;
  /** All manifests and indexes, tagged or not. */
  readonly revisions: ReadonlySet<Digest>;
}

/**
 * The storage of a registry of the distribution project (filesystem driver, `docker/registry/v2`).
 * Nothing in it is trusted.
 */
export interface RegistryStorage {
  readonly repositories: readonly StoredRepository[];
  /** The file of each blob that is there. */
  readonly blobs: ReadonlyMap<Digest, { readonly path: string; readonly sizeBytes: number }>;
}

/** Folders in a folder; a limit against endless media. */
const MAX_ENTRIES = 100_000;
const MAX_DEPTH = 12;
const MAX_LINK_BYTES = 256;

/**
 * Lists the storage below `root`, which holds `blobs` and `repositories`.
 *
 * @throws AppError `bundle/source` (`reject`) when it has links, is damaged or too large
 */
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

/**
 * Names of folders, sorted. A missing folder is empty. @throws AppError `bundle/source` for a link
 */
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
  return bundleError('bundle/source', `${path}: ${why}`, { ...(cause !== undefined && { cause }) });
}
