import { watch } from 'chokidar';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';

/** What the watch needs. */
interface WatchOptions {
  /** Files that stickpin writes. They are ignored. */
  readonly ownPaths: readonly string[];
  readonly log: Log;
  /** How often, in milliseconds, is looked for changes that inotify did not tell. Default 30 s. */
  readonly pollMs?: number;
}

/**
 * Calls `listener` when a file at or below one of `paths` is added, removed or changed. Paths need
 * not exist yet. Links are not followed.
 *
 * The kernel does not tell everything: a file that is replaced twice at once may lose its watch,
 * and a mount hides a folder that is watched. So it looks by itself too, now and then.
 */
export function watchConfig(
  paths: readonly string[],
  { ownPaths, log, pollMs = 30_000 }: WatchOptions,
  listener: () => void,
): Unsubscribe {
  const own = new Set(ownPaths);
  const options = { ignoreInitial: true, followSymlinks: false, ignored: (path: string) => own.has(path) };
  const polling = { usePolling: true, interval: pollMs, binaryInterval: pollMs };
  const watchers = [watch([...paths], options), watch([...paths], { ...options, ...polling })];
  for (const watcher of watchers) {
    watcher.on('all', listener);
    watcher.on('error', (error) => log.warn({ err: error, paths }, 'Configuration of the runtime can not be watched'));
  }
  // Changes before the watch was ready are not reported otherwise.
  watchers[0]?.on('ready', listener);
  return () => {
    for (const watcher of watchers) void watcher.close();
  };
}
