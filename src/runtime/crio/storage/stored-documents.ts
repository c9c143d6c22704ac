import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digest } from '../../../domain/model/digest.ts';
import { systemCodeOf } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { BlobSource } from '../../../ports/blobs.ts';
import { callAgain } from '../../cri/call-again.ts';
import type { CriClient } from '../../cri/cri-client.ts';
import { pathOfDocument, readStorageRecords } from './storage-records.ts';

/** The client of {@link createStoredDocuments}. */
export interface StoredDocumentClients {
  readonly cri: Pick<CriClient, 'imageFilesystemPath'>;
  readonly clock: Clock;
}

/** The paths of all documents by their digest, as of one version of the records. */
interface DocumentIndex {
  readonly version: string;
  readonly paths: ReadonlyMap<string, string>;
}

/**
 * Manifests, indexes and configs that CRI-O keeps of its images, by the records of
 * containers/storage. Bytes are not checked.
 */
export function createStoredDocuments({ cri, clock }: StoredDocumentClients): BlobSource {
  let index: DocumentIndex | undefined;
  const pathOf = async (digest: Digest, signal: AbortSignal): Promise<string | undefined> => {
    const folder = await callAgain(cri.imageFilesystemPath, clock, signal);
    if (folder === undefined) return undefined;
    const version = await versionOf(folder);
    if (index?.version !== version) index = { version, paths: await documentPaths(folder) };
    return index.paths.get(digest);
  };
  return {
    sizeOf: async (digest, signal) => {
      const path = await pathOf(digest, signal);
      return path === undefined ? undefined : sizeAt(path);
    },
    read: async function* (digest, startByte, signal) {
      const path = await pathOf(digest, signal);
      if (path !== undefined) yield (await readFile(path, { signal })).subarray(startByte);
    },
  };
}

/** The storage replaces its records with each change. */
async function versionOf(folder: string): Promise<string> {
  const { ino, size, mtimeMs } = await stat(join(folder, 'images.json'));
  return `${folder} ${ino} ${size} ${mtimeMs}`;
}

async function documentPaths(folder: string): Promise<ReadonlyMap<string, string>> {
  const records = await readStorageRecords(folder);
  const paths = new Map<string, string>();
  for (const { id, documents } of records.images.values()) {
    for (const [name, digest] of documents) paths.set(digest, pathOfDocument(records, id, name));
  }
  return paths;
}

async function sizeAt(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
