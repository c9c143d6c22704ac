import { watch } from 'chokidar';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';

/**
 * Calls `listener` when a file at or below one of `paths` comes, goes or changes; paths that don't
 * exist yet are waited for. Links are watched as links. `ownPaths` (files that we write ourselves)
 * count for nothing.
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
  // What changed before the watch stood would go unnoticed.
  watcher.on('ready', listener);
  watcher.on('all', listener);
  watcher.on('error', (error) => log.warn({ err: error, paths }, 'Configuration of the runtime can not be watched'));
  return () => void watcher.close();
}
