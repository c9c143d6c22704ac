import { watch } from 'chokidar';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';

/**
 * Calls `listener` when a file at or below one of `paths` is added, removed or changed. Paths need
 * not exist yet. Links are not followed. `ownPaths` (files that stickpin writes) are ignored.
 */
export function watchConfig(
  paths: readonly string[],
  { ownPaths, log }: { readonly ownPaths: readonly string[]; readonly log: Log },
  listener: () => void,
): Unsubscribe {
  const own = new Set(ownPaths);
  const watcher = watch([...paths], {
    ignoreInitial: true,
    followSymlinks: false,
    ignored: (path) => own.has(path),
  });
  // Changes before the watch was ready are not reported otherwise.
  watcher.on('ready', listener);
  watcher.on('all', listener);
  watcher.on('error', (error) => log.warn({ err: error, paths }, 'Configuration of the runtime can not be watched'));
  return () => void watcher.close();
}
