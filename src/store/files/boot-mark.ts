import { rm } from 'node:fs/promises';
import * as v from 'valibot';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { Log } from '../../platform/log.ts';
import type { BootMark } from '../../ports/runtime.ts';
import { openSealed, type SealedFile } from './sealed-file.ts';

/** Exists while the daemon runs, and stays when the node loses its power. */
export interface BootMarkFile extends BootMark {
  /**
   * Removes the mark, unless a check is due or it is to be kept. Call at a clean shutdown. Never
   * throws.
   */
  stopped(): Promise<void>;
}

export interface BootMarkOptions {
  /** `/var/lib/stickpin/running.json`. */
  readonly path: string;
  readonly bootId: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly log: Pick<Log, 'warn'>;
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
export async function openBootMark(
  { path, bootId, now, log }: BootMarkOptions,
  signal: AbortSignal,
): Promise<BootMarkFile> {
  const warn = (error: unknown): undefined => {
    if (!(error instanceof AppError)) throw error;
    log.warn({ err: error }, `It can't be noted that the daemon runs: ${reasonOf(error)}; ${CONSEQUENCE}`);
  };
  const file = await openSealed(path, now, parseMark).catch(warn);
  let isKept = false;
  let isCheckDue = file !== undefined && isUnclean(file, bootId);
  const write = async (inner: AbortSignal) => file?.save({ bootId, isCheckDue } satisfies Mark, inner);
  await write(signal).catch(warn);
  return {
    isCheckDue: () => isCheckDue,
    setCheckDue: async (isDue, inner) => {
      if (isDue === isCheckDue) return;
      isCheckDue = isDue;
      await write(inner);
    },
    keep: () => {
      isKept = true;
    },
    stopped: async () => {
      if (isKept) return;
      if (isCheckDue) await write(NEVER_ABORTED).catch(warn);
      else await rm(path, { force: true }).catch(() => undefined); // the next boot makes a check too many
    },
  };
}

const CONSEQUENCE = "after a power cut run 'stickpin verify-images' by hand";

function parseMark(value: unknown): Mark | undefined {
  const parsed = v.safeParse(schema, value);
  return parsed.success ? parsed.output : undefined;
}

function isUnclean({ loaded, damage }: SealedFile<Mark>, bootId: string): boolean {
  if (loaded === undefined) return damage !== undefined;
  return loaded.isCheckDue || loaded.bootId !== bootId;
}
