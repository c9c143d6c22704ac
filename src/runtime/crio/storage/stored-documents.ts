import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import * as v from 'valibot';
import type { Digest } from '../../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import { readIfPresent } from '../../../platform/files/durable-file.ts';
import type { BlobSource } from '../../../ports/blobs.ts';
import type { CriClient } from '../../cri/cri-client.ts';
import { callAgain } from '../../cri/runtime-error.ts';

interface StoredDocumentClients {
  readonly cri: Pick<CriClient, 'imageFilesystemPath'>;
  readonly clock: Clock;
}

/** Paths by digest, as of one version of the records. */
interface DocumentIndex {
  readonly version: string;
  readonly paths: ReadonlyMap<string, string>;
}

/** Manifests, indexes and configs in containers/storage. Bytes are not checked. */
export function createStoredDocuments({ cri, clock }: StoredDocumentClients): BlobSource {
  let index: DocumentIndex | undefined;
  const pathOf = async (digest: Digest, signal: AbortSignal): Promise<string | undefined> => {
    const folder = await callAgain((inner) => cri.imageFilesystemPath(inner), clock, signal);
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

/** An image in `images.json` (containers/storage, images.go, Image). */
export interface ImageRecord {
  readonly id: string;
  /** Names by tag and by digest, for example `quay.io/coreos/etcd@sha256:…`. */
  readonly names: readonly string[];
  /** The id of its highest layer. */
  readonly layer: string;
  /** Digests of its documents (manifest, config, signatures) by their names. */
  readonly documents: ReadonlyMap<string, string>;
}

/** A layer in `layers.json` (containers/storage, layers.go, Layer). */
interface LayerRecord {
  readonly id: string;
  /** It is empty for the lowest layer. */
  readonly parent: string;
  /** Its files were not all written. */
  readonly isIncomplete: boolean;
}

export interface StorageRecords {
  /** For example `/var/lib/containers/storage`. */
  readonly root: string;
  /** For example `overlay`. */
  readonly driver: string;
  readonly images: ReadonlyMap<string, ImageRecord>;
  readonly layers: ReadonlyMap<string, LayerRecord>;
}

const imagesSchema = v.array(
  v.object({
    id: v.string(),
    names: v.optional(v.nullable(v.array(v.string())), []),
    layer: v.optional(v.string(), ''),
    'big-data-digests': v.optional(v.record(v.string(), v.string()), {}),
  }),
);
const layersSchema = v.array(
  v.object({
    id: v.string(),
    parent: v.optional(v.string(), ''),
    flags: v.optional(v.record(v.string(), v.unknown()), {}),
  }),
);

/**
 * The storage replaces each file whole, so no lock is needed.
 * @param imagesFolder as CRI names it: `/var/lib/containers/storage/overlay-images`
 * @throws AppError `runtime/config` (`wait`) when a file can't be read or parsed
 */
export async function readStorageRecords(imagesFolder: string): Promise<StorageRecords> {
  const root = dirname(imagesFolder);
  const [, driver] = /^(.+)-images$/.exec(basename(imagesFolder)) ?? [];
  if (driver === undefined) throw unreadable(imagesFolder, 'it is not the folder of images of containers/storage');
  const layersFolder = join(root, `${driver}-layers`);
  const [images, layers, volatile] = await Promise.all([
    readDocument(join(imagesFolder, 'images.json'), imagesSchema),
    readDocument(join(layersFolder, 'layers.json'), layersSchema),
    readDocument(join(layersFolder, 'volatile-layers.json'), layersSchema, '[]'),
  ]);
  return {
    root,
    driver,
    images: new Map(
      images.map(({ id, names, layer, 'big-data-digests': digests }) => [
        id,
        { id, names: names ?? [], layer, documents: new Map(Object.entries(digests)) },
      ]),
    ),
    layers: new Map(
      [...layers, ...volatile].map(({ id, parent, flags }) => [
        id,
        { id, parent, isIncomplete: flags.incomplete === true },
      ]),
    ),
  };
}

/** The file of a document (containers/storage, store.go, makeBigDataBaseName). */
export function pathOfDocument({ root, driver }: StorageRecords, imageId: string, name: string): string {
  const file = /^[.0-9a-z]*$/.test(name) ? name : `=${Buffer.from(name).toString('base64')}`;
  return join(root, `${driver}-images`, imageId, file);
}

/** @param absent the text of an absent file. Default: there must be one */
async function readDocument<Schema extends typeof imagesSchema | typeof layersSchema>(
  path: string,
  schema: Schema,
  absent?: string,
): Promise<v.InferOutput<Schema>> {
  try {
    const text = (await readIfPresent(path)) ?? absent;
    if (text === undefined) throw new Error('there is no such file');
    return v.parse(schema, JSON.parse(text));
  } catch (error) {
    throw unreadable(path, reasonOf(error), error);
  }
}

function unreadable(path: string, why: string, cause?: unknown): AppError {
  const message = `The records of images in ${path} can't be read: ${why}`;
  return new AppError({ code: 'runtime/config', message, disposition: 'wait', cause });
}
