import type { BigIntStats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { watch } from 'chokidar';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';
import { closeWatcher } from '../../platform/files/file-access.ts';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';

interface WatchOptions {
  /** Files that stickpin writes. They are ignored. */
  readonly ownPaths: readonly string[];
  readonly log: Log;
  /** The interval for changes that the kernel did not report. Default 30 s. */
  readonly compareMs?: number;
}

/** Also compares at intervals: a file that is replaced twice at once may lose its watch. */
export function watchConfig(
  paths: readonly string[],
  { ownPaths, log, compareMs = 30_000 }: WatchOptions,
  listener: () => void,
): Unsubscribe {
  const ignored = new Set(ownPaths);
  let isStopped = false;
  let seen: string | undefined;
  /** The state is noted before the listener reads, so that no later change is missed. */
  const report = shareRuns(async () => {
    seen = await stateOf(paths, ignored);
    if (!isStopped) listener();
  });
  const compare = async () => {
    if (seen !== undefined && (await stateOf(paths, ignored)) !== seen) await report();
  };
  const watcher = watch([...paths], {
    ignoreInitial: true,
    followSymlinks: false,
    ignored: (path) => ignored.has(path),
  });
  // Changes before the watch was ready are not reported otherwise.
  watcher.on('ready', () => void report());
  watcher.on('all', () => void report());
  watcher.on('error', (error) => log.warn({ err: error, paths }, 'Configuration of the runtime can not be watched'));
  const timer = setInterval(() => void compare(), compareMs);
  return () => {
    isStopped = true;
    clearInterval(timer);
    void closeWatcher(watcher);
  };
}

async function stateOf(paths: readonly string[], ignored: ReadonlySet<string>): Promise<string> {
  const states = await Promise.all(paths.filter((path) => !ignored.has(path)).map((path) => entryState(path, ignored)));
  return states.join('\n');
}

/** The state of what can't be read is its error. */
async function entryState(path: string, ignored: ReadonlySet<string>): Promise<string> {
  try {
    const stats = await lstat(path, { bigint: true });
    // The time of a folder also changes with files of stickpin.
    if (!stats.isDirectory()) return fileState(path, stats);
    const names = (await readdir(path)).sort();
    return `${path}/\n${await stateOf(
      names.map((name) => join(path, name)),
      ignored,
    )}`;
  } catch (error) {
    return `${path} ${systemCodeOf(error)}`;
  }
}

function fileState(path: string, { dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [path, dev, ino, size, mtimeNs, ctimeNs].join(' ');
}
