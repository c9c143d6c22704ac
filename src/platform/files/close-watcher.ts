import type { FSWatcher } from 'chokidar';

/**
 * Closes a watch of chokidar for good.
 *
 * `close()` alone does not: the checks that still run when it is called end later. One that finds
 * the only watched entry gone calls `add()` with the folder around it (chokidar 5, `_remove`),
 * which opens the watch again; nobody would close that, and the process would not end. One that
 * fails emits `error`, for which nobody listens any more, so that it would be thrown.
 */
export async function closeWatcher(watcher: FSWatcher): Promise<void> {
  watcher.add = () => watcher;
  const closed = watcher.close();
  watcher.on('error', () => undefined);
  await closed;
}
