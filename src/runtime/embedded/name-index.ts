import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/durable-file.ts';
import { configError } from '../cri/runtime-error.ts';

/** Annotation for the name of an entry of `index.json` (image-spec, annotations.md). */
export const NAME = 'org.opencontainers.image.ref.name';

/** An entry of `index.json`. */
export interface IndexEntry extends Descriptor {
  readonly annotations: Readonly<Record<string, string>>;
}

/** Changes the entries by their names. */
type Change = (entries: Map<string, IndexEntry>) => void;

/** The file `index.json` of an image layout. */
export interface NameIndex {
  /** All entries by their names. Read again when the file was changed by others. */
  entries(): Promise<ReadonlyMap<string, IndexEntry>>;
  /**
   * Makes a change. It is on the disk when the call resolves. A change whose signal is aborted
   * before its turn is not made.
   */
  change(change: Change, signal: AbortSignal): Promise<void>;
}

/** Changes that are written together. */
interface Batch {
  readonly changes: { readonly change: Change; readonly signal: AbortSignal }[];
  readonly written: Promise<void>;
}

/**
 * The {@link NameIndex} at `directory`.
 *
 * INVARIANT: one write at a time. Changes that come during a write are written together after it,
 * so that many of them do not write the whole file once each.
 */
export function createNameIndex(directory: string): NameIndex {
  const path = join(directory, 'index.json');
  let read: { readonly version: string; readonly entries: ReadonlyMap<string, IndexEntry> } | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let waiting: Batch | undefined;

  const entries = async () => {
    const version = await versionOf(path);
    if (read?.version !== version) read = { version, entries: await readEntries(path) };
    return read.entries;
  };
  const write = async (changes: Batch['changes']) => {
    const changed = new Map(await entries());
    const wanted = changes.filter(({ signal }) => !signal.aborted);
    if (wanted.length === 0) return;
    for (const { change } of wanted) change(changed);
    await writeDurably({ path: join(directory, 'oci-layout') }, JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    const manifests = [...changed.values()];
    await writeDurably({ path }, JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
    read = { version: await versionOf(path), entries: changed };
  };
  const begin = (): Batch => {
    const changes: Batch['changes'] = [];
    const written = last.then(() => {
      waiting = undefined;
      return write(changes);
    });
    last = written.catch(() => undefined); // each caller handles the error
    return { changes, written };
  };
  return {
    entries,
    change: (change, signal) => {
      waiting ??= begin();
      waiting.changes.push({ change, signal });
      return untilAborted(waiting.written, signal);
    },
  };
}

/** Another one after each write: every write makes a new file. Empty when there is none. */
async function versionOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? '' : `${found.ino} ${found.mtimeNs} ${found.size}`;
}

async function readEntries(path: string): Promise<ReadonlyMap<string, IndexEntry>> {
  const { manifests = [] } = (await readJson<{ manifests: IndexEntry[] }>(path)) ?? {};
  return new Map(manifests.map((entry) => [entry.annotations[NAME] ?? '', entry]));
}

/** A file of the layout. Undefined when there is none. @throws AppError `runtime/config` */
export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readIfPresent(path);
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch (error) {
    throw configError(`${path} is damaged: remove the directory it lies in and load the images again`, error);
  }
}
