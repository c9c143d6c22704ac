import { createReadStream } from 'node:fs';
import { lstat, readFile, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import type { ExpectedImage, ImageContent } from '../../../domain/model/image.ts';
import type { ContentFault } from '../../../domain/model/reason.ts';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import { digestOf } from '../../../platform/digest.ts';
import type { ContentCheck } from '../../../ports/runtime.ts';
import type { CriClient } from '../../cri/cri-client.ts';
import { callAgain } from '../../cri/runtime-error.ts';
import { type ImageRecord, pathOfDocument, readStorageRecords, type StorageRecords } from './stored-documents.ts';

interface ContentCheckClients {
  readonly cri: Pick<CriClient, 'imageStatus' | 'imageFilesystemPath'>;
  readonly clock: Clock;
}

interface Checking extends ContentCheckClients {
  /** Undefined: the layer is good. */
  readonly layers: Map<string, ContentFault | undefined>;
}

/** Folders of unpacked files, by the driver of the storage. Other drivers have no such folders. */
const FOLDERS: Readonly<Record<string, readonly [string, string]>> = {
  overlay: ['overlay', 'diff'],
  vfs: ['vfs/dir', ''],
};

/**
 * Checks by the records of containers/storage that documents have their digests, layers are
 * complete, and each file has the size that it was unpacked with. CRI-O keeps no blobs, and bytes
 * of files are not compared. CRI-O's own check after an unclean shutdown leaves the files out
 * (docs/runtime-facts.md, fact 41).
 */
export function openContentCheck(clients: ContentCheckClients): ContentCheck {
  const checking: Checking = { ...clients, layers: new Map() };
  return { check: (image, _onBytes, signal) => checkImage(checking, image, signal) };
}

async function checkImage(
  checking: Checking,
  { reference }: ExpectedImage,
  signal: AbortSignal,
): Promise<ImageContent> {
  const { cri, clock } = checking;
  const listed = await listedImage(checking, reference, signal);
  if (listed === undefined) return { kind: 'absent', faults: [] };
  const folder = await callAgain((inner) => cri.imageFilesystemPath(inner), clock, signal);
  if (folder === undefined) return unknown('CRI-O does not tell where it keeps images');
  try {
    const records = await readStorageRecords(folder);
    const image =
      'failure' in listed
        ? recordNamed(reference, records)
        : records.images.get(listed.imageId.replace(/^sha256:/, ''));
    if (image === undefined) return unknown(`${folder} has no record of ${reference}; another store may have it`);
    const faults = [
      ...(await documentFaults(image, records, signal)),
      ...(await layerFaults(image, records, checking, signal)),
    ];
    if (faults.length > 0) return { kind: 'broken', faults };
    return 'failure' in listed ? unknown(reasonOf(listed.failure)) : { kind: 'whole', by: 'records' };
  } catch (error) {
    signal.throwIfAborted();
    return unknown(reasonOf(error));
  }
}

/** CRI-O has no answer for an image with an unknown layer. */
async function listedImage(
  { cri, clock }: Checking,
  reference: string,
  signal: AbortSignal,
): Promise<{ readonly imageId: string } | { readonly failure: unknown } | undefined> {
  try {
    return await callAgain((inner) => cri.imageStatus(reference, inner), clock, signal);
  } catch (failure) {
    signal.throwIfAborted();
    if (failure instanceof AppError && failure.code === 'runtime/unreachable') throw failure;
    return { failure };
  }
}

function recordNamed(reference: string, { images }: StorageRecords): ImageRecord | undefined {
  return [...images.values()].find(({ names }) => names.includes(reference));
}

function unknown(message: string): ImageContent {
  return { kind: 'unknown', reason: { code: 'runtime/config', message } };
}

async function documentFaults(
  { id, documents }: ImageRecord,
  records: StorageRecords,
  signal: AbortSignal,
): Promise<ContentFault[]> {
  const faults: ContentFault[] = [];
  for (const [name, digest] of documents) {
    signal.throwIfAborted();
    const bytes = await bytesAt(pathOfDocument(records, id, name));
    if (bytes !== undefined && digestOf(bytes) === digest) continue;
    faults.push({ kind: 'records', what: `its document ${name} is ${bytes === undefined ? 'gone' : 'damaged'}` });
  }
  return faults;
}

async function layerFaults(
  { layer: top }: ImageRecord,
  records: StorageRecords,
  { layers: known }: Checking,
  signal: AbortSignal,
): Promise<ContentFault[]> {
  const seen = new Set<string>();
  const faults: ContentFault[] = [];
  for (let id = top; id !== '' && !seen.has(id); id = records.layers.get(id)?.parent ?? '') {
    seen.add(id);
    if (!known.has(id)) known.set(id, await layerFault(id, records, signal));
    const fault = known.get(id);
    if (fault !== undefined) faults.push(fault);
  }
  return faults;
}

async function layerFault(
  id: string,
  { root, driver, layers }: StorageRecords,
  signal: AbortSignal,
): Promise<ContentFault | undefined> {
  const layer = layers.get(id);
  const short = id.slice(0, 12);
  if (layer === undefined) return { kind: 'records', what: `the storage has no record of its layer ${short}` };
  if (layer.isIncomplete) return { kind: 'records', what: `its layer ${short} was not written to the end` };
  const place = FOLDERS[driver];
  if (place === undefined) return undefined;
  const folder = join(root, place[0], id, place[1]);
  if (!(await isThere(folder))) return { kind: 'records', what: `the files of its layer ${short} are gone` };
  const record = join(root, `${driver}-layers`, `${id}.tar-split.gz`);
  const lost = await findLostFile(record, folder, signal);
  if (lost === undefined) return undefined;
  return { kind: 'records', what: `the file ${lost.name} of its layer ${short} is ${lost.why}` };
}

async function bytesAt(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** An entry in the records of the storage (vbatts/tar-split, tar/storage, Entry). */
interface FileEntry {
  readonly type: number;
  readonly name?: string;
  readonly size?: number;
}

/** A member of the archive. Others are its headers. */
const FILE = 1;
/** Lines of files are short; longer ones are headers of the archive. */
const MAX_LINE = 64 * 1024;

interface LostFile {
  /** Relative to the root of the layer. */
  readonly name: string;
  readonly why: 'absent' | 'truncated';
}

/**
 * The first file of an unpacked layer that is absent or has another size, for example after a power
 * cut. Returns undefined also if there is no record of files.
 * @param record the path of `overlay-layers/ID.tar-split.gz`
 * @throws system errors and those of zlib
 */
async function findLostFile(record: string, folder: string, signal: AbortSignal): Promise<LostFile | undefined> {
  // A later entry replaces an earlier one of the same name.
  const lost = new Map<string, LostFile>();
  try {
    const file = createReadStream(record, { signal });
    const text = file.pipe(createGunzip());
    file.on('error', (error) => text.destroy(error));
    for await (const line of createInterface({ input: text, crlfDelay: Number.POSITIVE_INFINITY })) {
      const entry = line.length > MAX_LINE ? undefined : (JSON.parse(line) as FileEntry);
      if (entry?.type !== FILE || entry.name === undefined || isOutside(entry.name)) continue;
      const found = await lostAt(folder, entry.name, entry.size ?? 0);
      if (found === undefined) lost.delete(entry.name);
      else lost.set(entry.name, found);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  return lost.values().next().value;
}

function isOutside(name: string): boolean {
  return name.split('/').includes('..');
}

/** Checks only members with content: others may be links, folders or marks of a removal. */
async function lostAt(folder: string, name: string, size: number): Promise<LostFile | undefined> {
  if (size === 0) return undefined;
  const path = join(folder, name);
  try {
    const found = await lstat(path);
    if (!found.isFile() || found.size === size || !(await isInPlace(folder, path))) return undefined;
    return { name, why: 'truncated' };
  } catch (error) {
    const isGone = systemCodeOf(error) === 'ENOENT' && (await isInPlace(folder, path));
    return isGone ? { name, why: 'absent' } : undefined;
  }
}

/** A later entry may have made a folder a link. */
async function isInPlace(folder: string, path: string): Promise<boolean> {
  try {
    const [root, parent] = await Promise.all([realpath(folder), realpath(dirname(path))]);
    return join(root, dirname(path).slice(folder.length)) === parent;
  } catch (error) {
    // The folder of the file is gone, too.
    return systemCodeOf(error) === 'ENOENT';
  }
}
