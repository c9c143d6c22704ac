import { rename } from 'node:fs/promises';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import { damagedName } from './damaged-name.ts';
import { fileWriteError } from './write-error.ts';

/** The content of a sealed file. */
export type SealedContent =
  | { readonly kind: 'absent' }
  | { readonly kind: 'read'; readonly value: unknown }
  | { readonly kind: 'damaged'; readonly reason: string };

/**
 * Reads a small JSON document that {@link writeSealed} wrote. It is `damaged` if its checksum is
 * wrong.
 *
 * @throws AppError `store/read` (`fatal`) when the file can't be read; its content may be good
 */
export async function readSealed(path: string): Promise<SealedContent> {
  let text: string | undefined;
  try {
    text = await readIfPresent(path);
  } catch (error) {
    if (systemCodeOf(error) === 'EISDIR') return { kind: 'damaged', reason: 'it is a directory' };
    throw new AppError({
      code: 'store/read',
      message: `${path} can't be read: ${reasonOf(error)}; see that the disk works and that the file may be read`,
      disposition: 'fatal',
      cause: error,
    });
  }
  if (text === undefined) return { kind: 'absent' };
  const opened = openSeal(text);
  return opened ?? { kind: 'damaged', reason: text === '' ? 'it is empty' : 'its checksum is wrong' };
}

/**
 * Replaces a small JSON document durably.
 *
 * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`)
 */
export async function writeSealed(path: string, value: unknown, signal: AbortSignal): Promise<void> {
  const body = JSON.stringify(value);
  try {
    await replaceFile({ path }, `{"checksum":"${checksumOf(body)}","content":${body}}\n`, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw fileWriteError(path, error, 'store/write', `${path} can't be written: ${reasonOf(error)}`);
  }
}

/** A damaged file that was not renamed yet. */
export interface DamagedFile {
  /** Its new path. */
  readonly aside: string;
  /**
   * Renames it. Later calls do nothing. @throws AppError `store/no-space`, `store/read-only`,
   * `store/write` (`retry`)
   */
  setAside(): Promise<void>;
}

/**
 * A damaged file, to be renamed before a new one is written. @param now milliseconds since the
 * epoch
 */
export function createDamagedFile(path: string, now: number): DamagedFile {
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

function openSeal(text: string): SealedContent | undefined {
  try {
    const { checksum, content } = JSON.parse(text) as { checksum: unknown; content: unknown };
    return checksum === checksumOf(JSON.stringify(content)) ? { kind: 'read', value: content } : undefined;
  } catch {
    return undefined;
  }
}

function checksumOf(body: string): string {
  return digestOf(body);
}
