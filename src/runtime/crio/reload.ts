import { rm } from 'node:fs/promises';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/config-file.ts';

/** Reloads CRI-O when it owes one. */
export interface Reload {
  /**
   * Changes something that CRI-O reads. After a change, a reload is owed, even if `make` throws
   * then. The marker is on the disk before the change, so that a restarted daemon makes the reload
   * too.
   * @param state reads what is to be changed
   * @throws AppError `runtime/write`, `runtime/no-space` (`wait`): nothing was changed; errors of
   * `make`
   */
  change(state: () => Promise<string | undefined>, make: () => Promise<unknown>): Promise<void>;
  /** The next {@link Reload.run} reloads. */
  owe(): void;
  /** Reloads if a reload is owed. A reload that fails stays owed. */
  run(signal: AbortSignal): Promise<void>;
}

/** What {@link createReload} needs. */
export interface ReloadDependencies {
  /**
   * A file that is there while a reload is owed. It must not survive a boot, which reads all files.
   */
  readonly markerPath: string;
  /**
   * Whether the runtime is being stopped. A reload would replace the stop, and the next start reads
   * the files anyway.
   */
  readonly isStopping: () => boolean;
  readonly reload: (signal: AbortSignal) => Promise<void>;
  /** Whether CRI-O takes all files at a reload, as far as is known. A broken one stops it. */
  readonly isWhole: (signal: AbortSignal) => Promise<boolean>;
}

const MARKER = '# Written by stickpin. CRI-O has not read its latest configuration yet.\n';

/**
 * Remembers in a file that a reload is owed, so that the start of a daemon makes a reload only when
 * an earlier one was killed before its reload. INVARIANT: the file exists before a drop-in changes,
 * and is removed only after a reload that took all files. A file that can't be read counts as
 * present.
 */
export function createReload({ markerPath, isStopping, reload, isWhole }: ReloadDependencies): Reload {
  /** It is undefined until the file was read. */
  let isOwed: boolean | undefined;
  return {
    change: async (state, make) => {
      const wasMarked = await isMarked(markerPath);
      isOwed ??= wasMarked;
      const read = () => state().catch(() => undefined);
      const before = await read();
      await writeDurably({ path: markerPath }, MARKER);
      try {
        await make();
        isOwed = true;
      } catch (error) {
        if ((await read()) !== before) isOwed = true;
        else if (!wasMarked) await rm(markerPath, { force: true }).catch(() => undefined);
        throw error;
      }
    },
    owe: () => {
      isOwed = true;
    },
    run: async (signal) => {
      isOwed ??= await isMarked(markerPath);
      if (!isOwed || isStopping()) return;
      await reload(signal);
      isOwed = false;
      // A marker that stays costs a reload at the next start of the daemon.
      if (await isWhole(signal)) await rm(markerPath, { force: true }).catch(() => undefined);
    },
  };
}

async function isMarked(path: string): Promise<boolean> {
  try {
    return (await readIfPresent(path)) !== undefined;
  } catch {
    return true;
  }
}
