import { stat } from 'node:fs/promises';
import type { ProgressListener } from '../progress.ts';

const INTERVAL_MS = 250;
/** st_blocks counts in these (stat(2)). */
const BLOCK_BYTES = 512;

/**
 * Reports how much of a sparse file is written while `act` fills it, since the programs that do so
 * have no machine-readable progress.
 *
 * @returns what `act` returns.
 * @throws whatever `act` throws.
 */
export async function watchWritten<T>(
  path: string,
  totalBytes: number,
  onProgress: ProgressListener,
  act: () => Promise<T>,
): Promise<T> {
  let isDone = false;
  const report = (doneBytes: number) =>
    onProgress({ kind: 'pack', doneBytes: Math.min(doneBytes, totalBytes), totalBytes });
  const look = async () => {
    const { blocks } = await stat(path);
    if (!isDone) report(blocks * BLOCK_BYTES);
  };
  const timer = setInterval(() => void look().catch(() => undefined), INTERVAL_MS);
  try {
    const result = await act();
    isDone = true;
    report(totalBytes);
    return result;
  } finally {
    isDone = true;
    clearInterval(timer);
  }
}
