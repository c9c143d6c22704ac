import { createHash } from 'node:crypto';
import { type Stats, watch as watchFolder } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { FSWatcher } from 'chokidar';
import { limits } from '../bundle/limits.ts';
import { findEntry } from '../bundle/read/bundle-directory.ts';
import type { BundleLayout } from '../bundle/read/find-bundles.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Clock } from '../platform/clock.ts';
import { closeWatcher } from '../platform/files/file-access.ts';
import { type HeldFolder, holdWithoutLinks } from '../platform/files/held-folder.ts';
import { type MediaProvider, type MediaSink, openFolderMedium, type PluggedMedium } from './media-provider.ts';

interface DirectoryMedium {
  readonly path: string;
  readonly layout: BundleLayout;
}

export interface DirectoryMediaDeps {
  readonly directories: readonly DirectoryMedium[];
  readonly clock: Clock;
  /** Time without changes before a directory is read. Default 500. */
  readonly settleMs?: number;
}

/** Below a root: `stickpin/<bundle>/blobs/sha256`. */
const WATCH_DEPTH = 4;
const DEFAULT_SETTLE_MS = 500;
/** For a directory whose parent folder does not exist either, so that no watch reports it. */
const PRESENCE_MS = 2_000;
/** Checks after a report: on a busy machine the watch on a new folder begins late. */
const LATER_CHECKS = 2;

/**
 * `media.directories`, and the drop folder. An existing directory counts as plugged in. It is read
 * after names, sizes and times below it have not changed for `settleMs`, so that a copy is
 * complete.
 */
export function createDirectoryMedia(deps: DirectoryMediaDeps): MediaProvider {
  const stop = new AbortController();
  const watches: DirectoryWatch[] = [];
  return {
    start: async (sink) => {
      const { watch: open } = await import('chokidar');
      for (const directory of deps.directories) {
        const watch = directoryWatch(directory, deps, { sink, open, signal: stop.signal });
        watches.push(watch);
        await startWatch(watch);
      }
    },
    rescan: async () => {
      for (const watch of watches) check(watch);
    },
    dispose: async () => {
      stop.abort();
      for (const watch of watches) await closeWatch(watch);
    },
  };
}

type OpenWatcher = typeof import('chokidar').watch;

interface DirectoryWatch {
  readonly path: string;
  readonly layout: BundleLayout;
  readonly mediumId: MediumId;
  readonly clock: Clock;
  readonly settleMs: number;
  readonly sink: MediaSink;
  readonly open: OpenWatcher;
  readonly signal: AbortSignal;
  /** Fingerprint of the last report. Undefined while the directory does not exist. */
  seen: string | undefined;
  /** Of the directory as an entry of its parent folder. */
  unwatchAbove: () => void;
  /** Name of the folder `stickpin` of a medium, when the directory was last listed. */
  home: string | undefined;
  /** Of the names in the directory of a medium. */
  unwatchTop: () => void;
  /** Of the content of the directory, or of a medium's folder `stickpin`. */
  below: FSWatcher | undefined;
  /** Something came or went since the last report: a reader may have found nothing meanwhile. */
  wasMoved: boolean;
  /** The directory and its folder `stickpin`, as {@link inodeOf} names them. */
  watched: string | undefined;
  timer: NodeJS.Timeout | undefined;
  /** See {@link LATER_CHECKS}. */
  laterChecks: number;
  /** Resolves when {@link below} watches the current directory. */
  following: Promise<void>;
  checking: Promise<void> | undefined;
  again: boolean;
}

function directoryWatch(
  { path, layout }: DirectoryMedium,
  { clock, settleMs = DEFAULT_SETTLE_MS }: DirectoryMediaDeps,
  around: Pick<DirectoryWatch, 'sink' | 'open' | 'signal'>,
): DirectoryWatch {
  return {
    path,
    layout,
    mediumId: `dir:${path}`,
    clock,
    settleMs,
    ...around,
    seen: undefined,
    unwatchAbove: () => undefined,
    home: undefined,
    unwatchTop: () => undefined,
    below: undefined,
    wasMoved: false,
    watched: undefined,
    timer: undefined,
    laterChecks: 0,
    following: Promise.resolve(),
    checking: undefined,
    again: false,
  };
}

async function startWatch(watch: DirectoryWatch): Promise<void> {
  const { path } = watch;
  // The content at the start counts as settled.
  report(watch, await fingerprintOf(watch));
  watch.unwatchAbove = watchEntry(path, (isMove) => {
    watch.wasMoved ||= isMove;
    follow(watch);
  });
  watch.timer = setInterval(() => {
    follow(watch);
    checkLater(watch);
  }, PRESENCE_MS).unref();
  follow(watch);
  await watch.following;
}

function follow(watch: DirectoryWatch): void {
  watch.following = watch.following.then(() => followDirectory(watch)).catch(() => check(watch));
}

async function closeWatch(watch: DirectoryWatch): Promise<void> {
  clearInterval(watch.timer);
  await watch.following;
  watch.unwatchAbove();
  await closeBelow(watch);
  await watch.checking;
}

/**
 * When the entry comes, goes or is replaced (`isMove`), or its attributes change. The database
 * beside the drop folder is written all the time, so a watch that reads the whole folder would be
 * expensive.
 */
function watchEntry(path: string, onChange: (isMove: boolean) => void): () => void {
  const name = basename(path);
  return watchNames(dirname(path), (isMove, changed) => {
    if (changed === name || changed === null) onChange(isMove);
  });
}

/** Without a list of them. */
function watchNames(folder: string, onChange: (isMove: boolean, name: string | null) => void): () => void {
  try {
    const watcher = watchFolder(folder, { persistent: false }, (event, name) => onChange(event === 'rename', name));
    watcher.on('error', () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined; // the folder is not there, or can't be watched
  }
}

/** A watch follows the inode, not the name, so it is replaced with the directory. */
async function followDirectory(watch: DirectoryWatch): Promise<void> {
  const { path, home } = watch;
  const inode = await inodeOf(path);
  const watched = inode && `${inode} ${home && (await inodeOf(join(path, home)))}`;
  if (watched === watch.watched) {
    if (watch.wasMoved) check(watch);
    return;
  }
  watch.watched = watched;
  await closeBelow(watch);
  if (watched !== undefined && !watch.signal.aborted) openBelow(watch);
  check(watch);
}

/** Only folders, and on a medium only `stickpin`: a bundle has thousands of files. */
function openBelow(watch: DirectoryWatch): void {
  const { path, layout, home, open } = watch;
  const onChange = () => check(watch);
  const isMedium = layout === 'medium';
  if (isMedium) watch.unwatchTop = watchNames(path, onChange);
  if (isMedium && home === undefined) return;
  const ignored = (_path: string, stats?: Stats) => stats?.isFile() === true;
  const depth = isMedium ? WATCH_DEPTH - 1 : WATCH_DEPTH;
  watch.below = open(join(path, home ?? '.'), { ignored, depth, followSymlinks: false })
    .on('raw', onChange)
    .on('error', onChange);
}

async function closeBelow(watch: DirectoryWatch): Promise<void> {
  const { below } = watch;
  watch.unwatchTop();
  watch.below = undefined;
  if (below !== undefined) await closeWatcher(below);
}

function checkLater(watch: DirectoryWatch): void {
  if (watch.laterChecks === 0) return;
  watch.laterChecks -= 1;
  check(watch);
}

function check(watch: DirectoryWatch): void {
  watch.again = true;
  watch.checking ??= checkUntilDone(watch);
}

async function checkUntilDone(watch: DirectoryWatch): Promise<void> {
  while (watch.again && !watch.signal.aborted) {
    watch.again = false;
    await settle(watch).catch(() => undefined); // only an abort throws
  }
  watch.checking = undefined;
  // Its folder `stickpin` may be new.
  if (!watch.signal.aborted) follow(watch);
}

/** Reports the directory when its content no longer changes. */
async function settle(watch: DirectoryWatch): Promise<void> {
  const { clock, settleMs, signal } = watch;
  let last = await fingerprintOf(watch);
  if (last === undefined || (last === watch.seen && !watch.wasMoved)) return report(watch, last);
  for (;;) {
    await clock.sleep(settleMs, signal);
    const next = await fingerprintOf(watch);
    if (next === last || next === undefined) return report(watch, next);
    last = next;
  }
}

function report(watch: DirectoryWatch, fingerprint: string | undefined): void {
  const { seen: before, wasMoved, sink, mediumId, path, layout } = watch;
  watch.wasMoved = false;
  if (fingerprint === before && (!wasMoved || before === undefined)) return;
  watch.seen = fingerprint;
  watch.laterChecks = LATER_CHECKS;
  if (fingerprint === undefined) sink.left(mediumId);
  else if (before === undefined) sink.arrived(pluggedDirectory(mediumId, path, layout));
  else sink.changed(mediumId);
}

async function inodeOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  // The kernel reuses inode numbers, so the birth time is part of the identity.
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

/** Of names, sizes and times. Undefined when it is no directory. */
async function fingerprintOf(watch: DirectoryWatch): Promise<string | undefined> {
  const { path, layout } = watch;
  if (!(await isDirectory(path))) return undefined;
  const hash = createHash('sha1');
  const root = await holdWithoutLinks(path).catch(() => undefined);
  // The reason is reported when the directory is read.
  if (root === undefined) return 'unreadable';
  const tree = layout === 'medium' ? listMedium(root, watch) : listTree(root, WATCH_DEPTH);
  for await (const line of tree) hash.update(line);
  return hash.digest('hex');
}

async function* listMedium(root: HeldFolder, watch: DirectoryWatch): AsyncGenerator<string> {
  try {
    const names = await root.names(limits.topEntries).catch((): string[] => []);
    yield `${names.sort().join('\0')}\n${(await root.stat('.').catch(() => undefined))?.mtimeMs}\n`;
    const home = await findEntry(root, 'stickpin').catch(() => undefined);
    const folder = home === undefined ? undefined : await root.openFolder(home).catch(() => undefined);
    watch.home = folder && home;
    if (folder !== undefined) yield* listTree(folder, WATCH_DEPTH - 1);
  } finally {
    await root.close();
  }
}

/** Entries that were removed meanwhile are left out, which changes the fingerprint. */
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
