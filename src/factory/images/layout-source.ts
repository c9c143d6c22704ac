import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  type Descriptor,
  type IndexEntry,
  manifestMediaTypes,
  parseSourceIndex,
  type SourceEntry,
} from '../../bundle/format/oci-schema.ts';
import type { LayoutSelector } from '../../bundle/image-request.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';

/** image-spec, annotations.md: what the name of an entry of a layout. */
export const REF_NAME = 'org.opencontainers.image.ref.name';

export interface SourceFile {
  readonly path: string;
  /** Its name in errors. */
  readonly what: string;
}

export function layoutBlobPath(directory: string, digest: Digest): string {
  return join(directory, 'blobs', 'sha256', hexOf(digest));
}

/** @throws AppError `bundle/source` (`reject`) */
export async function readLayoutIndex(directory: string, signal: AbortSignal): Promise<readonly SourceEntry[]> {
  const path = join(directory, 'index.json');
  return parseSourceIndex(await readLimited(path, limits.indexBytes, signal), path, 'bundle/source');
}

/** A sentence for each entry that is left out, since its digest is not a SHA-256. */
export function leftOutNotes(place: string, entries: readonly SourceEntry[]): string[] {
  return entries.flatMap((found) =>
    found.kind === 'usable' ? [] : [`${place}: ${shownEntry(found)} is left out: ${NOT_SHA256}`],
  );
}

const NOT_SHA256 = 'its digest is not a SHA-256, and bundles and nodes know no other algorithm';

function shownEntry({ digest, name }: Extract<SourceEntry, { kind: 'other-algorithm' }>): string {
  const short = digest.length > 40 ? `${digest.slice(0, 40)}…` : digest;
  return name === undefined ? short : `${name} (${short})`;
}

export function refNameOf(entry: IndexEntry): string | undefined {
  return entry.annotations?.[REF_NAME];
}

/** image-spec, image-layout.md. @throws AppError `bundle/source` that lists the names */
export function findInLayout(place: string, selector: LayoutSelector, entries: readonly SourceEntry[]): IndexEntry {
  const selected =
    selector.kind === 'position'
      ? entries.slice(selector.position, selector.position + 1)
      : entries.filter((entry) => isSelected(entry, selector));
  // An entry that can't be taken does not hide the only one that can.
  const found = selector.kind === 'only' ? selected.filter(({ kind }) => kind === 'usable') : selected;
  const [first] = found.length === 0 ? selected : found;
  const usable = found.flatMap((one) => (one.kind === 'usable' ? one.entry : []));
  if (first?.kind === 'other-algorithm') {
    const message = `${place}: ${shownEntry(first)} can't be taken: ${NOT_SHA256}; copy the image into another layout with SHA-256`;
    throw bundleError('bundle/source', message);
  }
  const [entry] = usable;
  if (entry === undefined || new Set(usable.map(({ digest }) => digest)).size > 1) {
    const names = entries.map((one, at) => nameOf(one) ?? `@${at}`).slice(0, 20);
    const wanted = {
      only: 'more than one image or none',
      name: 'no image, or more than one, has that name',
      digest: 'no image of that digest',
      position: 'no image at that position',
    };
    const message = `${place} (${describe(selector)}): ${wanted[selector.kind]}; choose with ${place}:NAME from: ${names.join(', ') || '(empty)'}`;
    throw bundleError('bundle/source', message);
  }
  if (!manifestMediaTypes.has(entry.mediaType)) {
    const message = `${place}: ${entry.digest} is not an image but ${JSON.stringify(entry.mediaType)}`;
    throw bundleError('bundle/source', message);
  }
  return entry;
}

function nameOf(found: SourceEntry): string | undefined {
  return found.kind === 'usable' ? refNameOf(found.entry) : found.name;
}

/** @throws AppError `bundle/source` when absent, too large, or of another size or digest */
export async function readLayoutDocument(
  { path, what }: SourceFile,
  of: Pick<Descriptor, 'digest' | 'size'>,
  signal: AbortSignal,
): Promise<Buffer> {
  const bytes = await readLimited(path, limits.manifestBytes, signal, what);
  const found = digestOf(bytes);
  if (found === of.digest && bytes.length === of.size) return bytes;
  const message = `${what} is damaged: its digest is ${found}, ${bytes.length} bytes; expected ${of.digest}, ${of.size} bytes`;
  throw bundleError('bundle/source', message);
}

/** @throws AppError `bundle/source` when it is larger, no file, or unreadable */
export async function readLimited(path: string, maxBytes: number, signal: AbortSignal, what = path): Promise<Buffer> {
  try {
    const size = await sizeOfFile({ path, what });
    if (size > maxBytes) throw bundleError('bundle/source', `${what} has ${size} bytes, and ${maxBytes} are allowed`);
    return await readFile(path, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw sourceError(what, cause);
  }
}

/** A pipe would be waited for, and a device may have no end. @throws AppError `bundle/source` */
export async function sizeOfFile({ path, what }: SourceFile): Promise<number> {
  const found = await stat(path).catch((cause: unknown) => {
    throw sourceError(what, cause);
  });
  if (!found.isFile()) throw bundleError('bundle/source', `${what} is not a file`);
  return found.size;
}

/** Yields chunks of at most 1 MiB. @throws AppError `bundle/source` */
export async function* readSource({ path, what }: SourceFile, signal: AbortSignal): AsyncGenerator<Buffer> {
  await sizeOfFile({ path, what });
  try {
    yield* createReadStream(path, { highWaterMark: CHUNK_BYTES, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw sourceError(what, cause);
  }
}

const CHUNK_BYTES = 1024 * 1024;

/** A system error as `bundle/source` (`reject`); an AppError stays. */
export function sourceError(what: string, cause: unknown): unknown {
  if (cause instanceof AppError) return cause;
  // The path is removed, since it may be a temporary one of stickpin.
  const reason = reasonOf(cause).replace(/ '.*'\)$/, ')');
  return bundleError('bundle/source', `${what} can't be read: ${reason}`, { cause });
}

/**
 * Replaces the path of the temporary `folder` in a message by `place`, which the person knows. An
 * error that does not name `folder` is returned as it is.
 */
export function withPlace(error: unknown, folder: string, place: string): unknown {
  if (!(error instanceof AppError) || !error.message.includes(folder)) return error;
  return error.reworded(error.message.replaceAll(folder, place));
}

function isSelected(entry: SourceEntry, selector: Exclude<LayoutSelector, { kind: 'position' }>): boolean {
  switch (selector.kind) {
    case 'only':
      return true;
    case 'name':
      return nameOf(entry) === selector.name;
    case 'digest':
      return entry.kind === 'usable' && entry.entry.digest === selector.digest;
  }
}

function describe(selector: LayoutSelector): string {
  switch (selector.kind) {
    case 'only':
      return 'no name given';
    case 'name':
      return selector.name;
    case 'digest':
      return selector.digest;
    case 'position':
      return `@${selector.position}`;
  }
}
