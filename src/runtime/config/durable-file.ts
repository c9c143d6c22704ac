import { type DurableFile, replaceFile } from '../../platform/files/durable-file.ts';
import { writeError } from '../cri/runtime-error.ts';

/**
 * As {@link replaceFile}, for a file that a container runtime reads.
 *
 * @returns whether anything was written.
 * @throws AppError `runtime/write` or `runtime/no-space` (`wait`).
 */
export async function writeDurably(file: DurableFile, content: string | Buffer): Promise<boolean> {
  try {
    return await replaceFile(file, content);
  } catch (error) {
    throw writeError(file.path, error);
  }
}
