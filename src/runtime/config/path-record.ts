import { readIfPresent } from '../../platform/files/durable-file.ts';
import { configError } from '../cri/runtime-error.ts';
import { writeDurably } from './durable-file.ts';

/**
 * Where stickpin has put something for a container runtime, in a file with one absolute path a
 * line. Scripts read it when the daemon does not run.
 */
export interface PathRecord {
  /** In the order in which they were written. Empty when there is no file. */
  read(): Promise<readonly string[]>;
  /**
   * Returns when the record would survive a power cut. A record that is the same is not written.
   *
   * @throws AppError `runtime/config`, `runtime/write`, `runtime/no-space`
   */
  write(paths: readonly string[]): Promise<void>;
}

/**
 * The {@link PathRecord} in the file at `path`. A file that can't be read counts as empty.
 *
 * @param knownAnyway paths that the scripts look at without a record
 */
export function createPathRecord(path: string, knownAnyway: readonly string[]): PathRecord {
  /** What could not be written, while that does no harm. */
  let unwritten: readonly string[] | undefined;
  const read = async () => unwritten ?? linesOf((await readIfPresent(path).catch(() => undefined)) ?? '');
  return {
    read,
    write: async (paths) => {
      const unfit = paths.find((each) => each.includes('\n'));
      if (unfit !== undefined)
        throw configError(`The path ${JSON.stringify(unfit)} has a line break. Choose another name`);
      if (paths.length === 0 && (await read()).length === 0) return;
      try {
        await writeDurably({ path }, paths.map((each) => `${each}\n`).join(''));
        unwritten = undefined;
      } catch (error) {
        // A full disk of the state must not keep anything from usual places.
        if (!paths.every((each) => knownAnyway.includes(each))) throw error;
        unwritten = paths;
      }
    },
  };
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.startsWith('/'));
}
