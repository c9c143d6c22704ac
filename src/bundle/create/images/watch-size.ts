import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

const INTERVAL_MS = 250;

/**
 * Reports the size of a folder's files repeatedly while `act` fills it, since skopeo has no
 * machine-readable progress. A missing folder counts as 0.
 *
 * @returns what `act` returns.
 * @throws whatever `act` throws.
 */
export async function watchSize<T>(
  folder: string,
  onBytes: (bytes: number) => void,
  act: () => Promise<T>,
): Promise<T> {
  let isDone = false;
  let isBusy = false;
  const look = async () => {
    if (isBusy) return;
    isBusy = true;
    const bytes = await sizeOf(folder);
    isBusy = false;
    if (!isDone) onBytes(bytes);
  };
  const timer = setInterval(() => void look(), INTERVAL_MS);
  try {
    return await act();
  } finally {
    isDone = true;
    clearInterval(timer);
  }
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
