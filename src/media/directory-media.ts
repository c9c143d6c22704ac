import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ChokidarOptions, FSWatcher } from 'chokidar';
import type { BundleLayout } from '../bundle/read/find-bundles.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Clock } from '../platform/clock.ts';
import { type HeldFolder, holdWithoutLinks } from '../platform/files/held-folder.ts';
import { openFolderMedium } from './provider/folder-medium.ts';
import type { MediaProvider, MediaSink, PluggedMedium } from './provider/media-provider.ts';

/** A directory that is taken for a medium while it exists. */
interface DirectoryMedium {
  readonly path: string;
  readonly layout: BundleLayout;
}

/** What {@link createDirectoryMedia} needs. */
export interface DirectoryMediaDeps {
  readonly directories: readonly DirectoryMedium[];
  readonly clock: Clock;
  /** How long nothing may change before a directory is read, in milliseconds. Default 500. */
  readonly settleMs?: number;
}

/** Deepest level below a root that is watched: `stickpin/<bundle>/blobs/sha256`. */
const WATCH_DEPTH = 4;
const DEFAULT_SETTLE_MS = 500;
/** How often a root is looked for that no watch can tell of, since the folder above it is not there either. */
const PRESENCE_MS = 2_000;

/** Files are not watched one by one: a bundle has thousands, and the watch on their folder tells of them too. */
const BELOW: ChokidarOptions = {
  ignored: (_path, stats) => stats?.isFile() === true,
  depth: WATCH_DEPTH,
  followSymlinks: false,
};

/**
 * Directories as media: `media.directories`, and the drop folder. One that exists is plugged in, one that is removed is unplugged. Something
 * that is being copied is read when names, sizes and times below the root have stood still for `settleMs`.
 */
export function createDirectoryMedia(deps: DirectoryMediaDeps): MediaProvider {
  const stop = new AbortController();
  const watches: DirectoryWatch[] = [];
  return {
    start: async (sink) => {
      const { watch: openWatcher } = await import('chokidar');
      for (const directory of deps.directories) {
        const watch = createDirectoryWatch(directory, deps, sink, stop.signal);
        watches.push(watch);
        await watch.start(openWatcher);
      }
    },
    rescan: async () => {
      for (const watch of watches) watch.look();
    },
    dispose: async () => {
      stop.abort();
      for (const watch of watches) await watch.close();
    },
  };
}

type OpenWatcher = typeof import('chokidar').watch;

interface DirectoryWatch {
  start(open: OpenWatcher): Promise<void>;
  /** Looks at the directory, now or after the look that is under way. */
  look(): void;
  close(): Promise<void>;
}

function createDirectoryWatch(
  { path, layout }: DirectoryMedium,
  { clock, settleMs = DEFAULT_SETTLE_MS }: DirectoryMediaDeps,
  sink: MediaSink,
  signal: AbortSignal,
): DirectoryWatch {
  const mediumId: MediumId = `dir:${path}`;
  let seen: string | undefined;
  let above: FSWatcher | undefined;
  let below: FSWatcher | undefined;
  let watched: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let following: Promise<void> = Promise.resolve();
  let looking: Promise<void> | undefined;
  let again = false;

  const report = (fingerprint: string | undefined): void => {
    if (fingerprint === seen) return;
    const before = seen;
    seen = fingerprint;
    if (fingerprint === undefined) sink.left(mediumId);
    else if (before === undefined) sink.arrived(pluggedDirectory(mediumId, path, layout));
    else sink.changed(mediumId);
  };
  const settle = async (): Promise<void> => {
    let last = await fingerprintOf(path);
    if (last === undefined || last === seen) return report(last);
    for (;;) {
      await clock.sleep(settleMs, signal);
      const next = await fingerprintOf(path);
      if (next === last || next === undefined) return report(next);
      last = next;
    }
  };
  const lookUntilDone = async (): Promise<void> => {
    while (again && !signal.aborted) {
      again = false;
      await settle().catch(() => undefined); // only an abort ends up here
    }
    looking = undefined;
  };
  const look = (): void => {
    again = true;
    looking ??= lookUntilDone();
  };

  /** Opens the watch on what lies below anew when another directory stands at the path: a watch follows the inode, not the name. */
  const follow = async (open: OpenWatcher): Promise<void> => {
    const inode = await inodeOf(path);
    if (inode === watched) return;
    watched = inode;
    await below?.close();
    below = inode === undefined || signal.aborted ? undefined : open(path, BELOW).on('raw', look).on('error', look);
    look();
  };

  return {
    start: async (open) => {
      // What is there at the start stood still before; nobody has to wait for it.
      report(await fingerprintOf(path));
      const check = (): void => {
        following = following.then(() => follow(open)).catch(look);
      };
      const parent = dirname(path);
      const ignored = (one: string): boolean => one !== parent && one !== path;
      above = open(parent, { depth: 0, ignored, ignoreInitial: true, followSymlinks: false });
      above.on('all', check).on('error', check);
      timer = setInterval(check, PRESENCE_MS).unref();
      check();
      await following;
    },
    look,
    close: async () => {
      clearInterval(timer);
      await following;
      await Promise.all([above?.close(), below?.close()]);
      await looking;
    },
  };
}

async function inodeOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  // A number that became free is given away again, so the time of birth belongs to it.
  return found?.isDirectory() ? `${found.dev}:${found.ino}:${found.birthtimeNs}` : undefined;
}

function pluggedDirectory(mediumId: MediumId, path: string, layout: BundleLayout): PluggedMedium {
  return {
    mediumId,
    label: path,
    isDropFolder: layout === 'folder',
    open: async () => openFolderMedium(path, layout),
    isThere: () => isDirectory(path),
    release: async () => undefined,
  };
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

/** Changes whenever a name, a size or a time below `path` does; undefined when it is no directory. */
async function fingerprintOf(path: string): Promise<string | undefined> {
  if (!(await isDirectory(path))) return undefined;
  const hash = createHash('sha1');
  const root = await holdWithoutLinks(path).catch(() => undefined);
  // Why it can't be read is told when it is.
  if (root === undefined) return 'unreadable';
  for await (const line of listTree(root, WATCH_DEPTH)) hash.update(line);
  return hash.digest('hex');
}

/** Lists a folder, which is closed afterwards, and those in it. What was removed meanwhile is left out, which tells that it changed. */
async function* listTree(folder: HeldFolder, depth: number): AsyncGenerator<string> {
  try {
    const names = await folder.names(Number.POSITIVE_INFINITY).catch((): string[] => []);
    for (const name of names.sort()) {
      const found = await folder.stat(name).catch(() => undefined);
      yield `${join(folder.path, name)}\0${found?.size}\0${found?.mtimeMs}\0${found?.ino}\n`;
      if (found?.isDirectory() !== true || depth === 0) continue;
      const child = await folder.openFolder(name).catch(() => undefined);
      if (child !== undefined) yield* listTree(child, depth - 1);
    }
  } finally {
    await folder.close();
  }
}
