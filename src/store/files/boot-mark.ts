import { rename, rm } from 'node:fs/promises';
import * as v from 'valibot';
import { reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { isNoFile, readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import type { BootMark } from '../../ports/runtime.ts';
import { openSeal, sealed } from './sealed-file.ts';
import { damagedName, fileWriteError } from './write-error.ts';

export interface BootMarkOptions {
  /** `/var/lib/stickpin/running.json`. */
  readonly path: string;
  readonly bootId: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly log: Log;
}

const schema = v.object({ bootId: v.string(), isCheckDue: v.boolean() });
type Mark = v.InferOutput<typeof schema>;

/**
 * Reads the mark of the last run, and writes that of this one. A check of images is due when the
 * last run was in another boot without a clean shutdown, and stays due until it is done. A damaged
 * mark counts as such a run.
 * A mark that can't be read or written is reported, and the daemon starts: the next unclean boot is
 * then not noticed.
 */
export async function openBootMark(options: BootMarkOptions, signal: AbortSignal): Promise<BootMarkFile> {
  const found = await readMark(options.path).catch((error: unknown) => {
    warn(options, error);
    return 'unreadable' as const;
  });
  const mark = new BootMarkFile(options, found);
  await mark.write(signal).catch((error: unknown) => warn(options, error));
  return mark;
}

/** Exists while the daemon runs, and stays when the node loses its power. */
export class BootMarkFile implements BootMark {
  private isKept = false;
  private isDue: boolean;

  constructor(
    private readonly options: BootMarkOptions,
    private found: Found,
  ) {
    const isOther = typeof found === 'object' && isUnclean(found, options.bootId);
    this.isDue = isOther || found === 'damaged';
  }

  isCheckDue(): boolean {
    return this.isDue;
  }

  async setCheckDue(isDue: boolean, signal: AbortSignal): Promise<void> {
    if (isDue === this.isDue) return;
    this.isDue = isDue;
    await this.write(signal);
  }

  keep(): void {
    this.isKept = true;
  }

  /**
   * Removes the mark, unless a check is due or it is to be kept. Call at a clean shutdown. Never
   * throws.
   */
  async stopped(): Promise<void> {
    if (this.isKept) return;
    if (this.isDue) await this.write(NEVER_ABORTED).catch((error: unknown) => warn(this.options, error));
    else await rm(this.options.path, { force: true }).catch(() => undefined); // the next boot makes a check too many
  }

  /** Renames a damaged file, and leaves an unreadable one. @throws AppError `store/…` (`retry`) */
  async write(signal: AbortSignal): Promise<void> {
    const { path, bootId, now } = this.options;
    if (this.found === 'unreadable') return;
    signal.throwIfAborted();
    // Once the damaged file is renamed, another one must follow.
    const inner = this.found === 'damaged' ? NEVER_ABORTED : signal;
    try {
      if (this.found === 'damaged') await rename(path, damagedName(path, now));
      this.found = undefined;
      await replaceFile({ path }, sealed({ bootId, isCheckDue: this.isDue } satisfies Mark), inner);
    } catch (error) {
      signal.throwIfAborted();
      throw fileWriteError(path, error, 'store/write', `${path} can't be written: ${reasonOf(error)}`);
    }
  }
}

function warn({ log }: BootMarkOptions, error: unknown): void {
  const consequence = "after a power cut run 'stickpin verify-images' by hand";
  log.warn({ err: error }, `It can't be noted that the daemon runs: ${reasonOf(error)}; ${consequence}`);
}

type Found = Mark | 'damaged' | 'unreadable' | undefined;

/** @throws system errors */
async function readMark(path: string): Promise<Found> {
  let text: string | undefined;
  try {
    text = await readIfPresent(path);
  } catch (error) {
    if (isNoFile(error)) return 'damaged';
    throw error;
  }
  if (text === undefined) return undefined;
  const opened = openSeal(text);
  const parsed = v.safeParse(schema, opened.kind === 'read' ? opened.value : undefined);
  return parsed.success ? parsed.output : 'damaged';
}

function isUnclean(loaded: Mark, bootId: string): boolean {
  return loaded.isCheckDue || loaded.bootId !== bootId;
}
