import { rename } from 'node:fs/promises';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { digestOf } from '../../platform/digest.ts';
import { type DurableFile, isNoFile, readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import { damagedName, fileWriteError } from './write-error.ts';

/** A small JSON document with a checksum. */
export interface SealedFile<T> {
  /** Undefined when there was no usable file. */
  readonly loaded: T | undefined;
  /** Why an existing file could not be used, with the path of its copy. */
  readonly damage: string | undefined;
  /** Durable, after a damaged file is renamed. @throws AppError `store/…` (`retry`) */
  save(value: unknown, signal: AbortSignal): Promise<void>;
}

/**
 * @param now milliseconds since the epoch, for the name of a damaged file
 * @param parse undefined for a wrong value
 * @throws AppError `store/read` (`fatal`) when the file can't be read; its content may be good
 */
export async function openSealed<T>(
  path: string,
  now: number,
  parse: (value: unknown) => T | undefined,
): Promise<SealedFile<T>> {
  const content = await readSealed(path);
  const loaded = content.kind === 'read' ? parse(content.value) : undefined;
  if (content.kind === 'absent' || loaded !== undefined) {
    return { loaded, damage: undefined, save: (value, signal) => writeSealed({ path }, value, signal) };
  }
  const damaged = createDamagedFile(path, now);
  const save = async (value: unknown, signal: AbortSignal) => {
    signal.throwIfAborted();
    await damaged.setAside();
    // Once the damaged file is renamed, another one must follow.
    await writeSealed({ path }, value, NEVER_ABORTED);
  };
  const reason = content.kind === 'damaged' ? content.reason : 'its content is not what stickpin writes';
  return { loaded: undefined, damage: `${reason}; it is kept as ${damaged.aside}`, save };
}

type Opened =
  | { readonly kind: 'read'; readonly value: unknown }
  | { readonly kind: 'damaged'; readonly reason: string };

type SealedContent = Opened | { readonly kind: 'absent' };

async function readSealed(path: string): Promise<SealedContent> {
  let text: string | undefined;
  try {
    text = await readIfPresent(path);
  } catch (error) {
    if (isNoFile(error)) return { kind: 'damaged', reason: 'it is not a file' };
    throw unreadable(path, error);
  }
  return text === undefined ? { kind: 'absent' } : openSeal(text);
}

/** `store/read` (`fatal`): the content may be good. */
export function unreadable(path: string, cause: unknown): AppError {
  const message = `${path} can't be read: ${reasonOf(cause)}; see that the disk works and that the file may be read`;
  return new AppError({ code: 'store/read', message, disposition: 'fatal', cause });
}

/** @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`) */
async function writeSealed(file: DurableFile, value: unknown, signal: AbortSignal): Promise<void> {
  const { path } = file;
  try {
    await replaceFile(file, sealed(value), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw fileWriteError(path, error, 'store/write', `${path} can't be written: ${reasonOf(error)}`);
  }
}

export function sealed(value: unknown): string {
  const body = JSON.stringify(value);
  return `{"checksum":"${digestOf(body)}","content":${body}}\n`;
}

interface DamagedFile {
  readonly aside: string;
  setAside(): Promise<void>;
}

function createDamagedFile(path: string, now: number): DamagedFile {
  const aside = damagedName(path, now);
  let isDone = false;
  return {
    aside,
    setAside: async () => {
      if (isDone) return;
      try {
        await rename(path, aside);
        isDone = true;
      } catch (error) {
        throw fileWriteError(path, error, 'store/write', `${path} is damaged and can't be renamed: ${reasonOf(error)}`);
      }
    },
  };
}

export function openSeal(text: string): Opened {
  try {
    const { checksum, content } = JSON.parse(text) as { checksum: unknown; content: unknown };
    if (checksum === digestOf(JSON.stringify(content))) return { kind: 'read', value: content };
  } catch {
    // as a wrong checksum
  }
  return { kind: 'damaged', reason: text === '' ? 'it is empty' : 'its checksum is wrong' };
}
