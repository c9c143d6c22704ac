import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../platform/app-error.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { createTrouble } from '../trouble.ts';

/**
 * A file that says on which Node stickpin has written, from before the first write until all of it
 * was taken away. So that is done later when no API server answers.
 */
export interface PublishedMark {
  /** The name of the Node; undefined when nothing is there. */
  read(): Promise<string | undefined>;
  /** A failure is one line in the log. */
  set(node: string, signal: AbortSignal): Promise<void>;
  clear(): Promise<void>;
}

/** The mark in a folder: the `StateDirectory=` of the fleet process. */
export function createPublishedMark(stateDir: string, log: Log): PublishedMark {
  const path = join(stateDir, 'published');
  const unwritten = createTrouble(log);
  return {
    read: async () => {
      const text = await readIfPresent(path);
      return text?.trim() || undefined;
    },
    set: async (node, signal) => {
      try {
        await replaceFile({ path, mode: 0o600 }, `${node}\n`, signal);
        unwritten.end(`${path} is written now`);
      } catch (error) {
        signal.throwIfAborted();
        const after = 'a removal of stickpin may leave its annotations and labels on the own Node';
        unwritten.begin(`${path} can't be written: ${reasonOf(error)}; ${after}`, error);
      }
    },
    clear: () => rm(path, { force: true }),
  };
}
