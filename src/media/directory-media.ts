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
import { folderMedium, type MediaProvider, type MediaSink } from './media-provider.ts';

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
/** How often a directory is checked without a watch, since its parent folder does not exist. */
const PRESENCE_MS = 2_000;
/** Checks after a report: on a busy machine the watch on a new folder begins late. */
const LATER_CHECKS = 2;

/**
 * `media.directories`, and the drop folder. An existing directory counts as plugged in. It is read
 * after names, sizes and times below it have not changed for `settleMs`, so that a copy is
 * complete.
 */
export class DirectoryMedia implements MediaProvider {
  private readonly stop = new AbortController();
  private readonly watches: DirectoryWatch[] = [];

  constructor(private readonly deps: DirectoryMediaDeps) {}

  async start(sink: MediaSink): Promise<void> {
    const { watch: open } = await import('chokidar');
    for (const directory of this.deps.directories) {
      const watch = new DirectoryWatch(directory, this.deps, { sink, open, signal: this.stop.signal });
      this.watches.push(watch);
      await watch.start();
    }
  }

  async rescan(): Promise<void> {
    for (const watch of this.watches) watch.check();
  }

  async dispose(): Promise<void> {
    this.stop.abort();
    for (const watch of this.watches) await watch.close();
  }
}

interface WatchParts {
  readonly sink: MediaSink;
  readonly open: typeof import('chokidar').watch;
  readonly signal: AbortSignal;
}

class DirectoryWatch {
  private readonly path: string;
  private readonly layout: BundleLayout;
  /** The fingerprint of the last report. It is undefined while the directory does not exist. */
  private seen: string | undefined;
  /** Ends the watch of the directory as an entry of its parent folder. */
  private unwatchAbove: () => void = () => undefined;
  /** Name of the folder `stickpin` of a medium, when the directory was last listed. */
  private home: string | undefined;
  /** Ends the watch of the names in the directory of a medium. */
  private unwatchTop: () => void = () => undefined;
  /** Watches the content of the directory, or of a medium's folder `stickpin`. */
  private below: FSWatcher | undefined;
  /** Something came or went since the last report: a reader may have found nothing meanwhile. */
  private wasMoved = false;
  /** The directory and its folder `stickpin`, as {@link inodeOf} names them. */
  private watched: string | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** See {@link LATER_CHECKS}. */
  private laterChecks = 0;
  /** Resolves when {@link below} watches the current directory. */
  private following: Promise<void> = Promise.resolve();
  private checking: Promise<void> | undefined;
  private again = false;

  constructor(
    { path, layout }: DirectoryMedium,
    private readonly deps: DirectoryMediaDeps,
    private readonly parts: WatchParts,
  ) {
    this.path = path;
    this.layout = layout;
  }

  async start(): Promise<void> {
    const { path } = this;
    // The content at the start counts as settled.
    this.report(await this.fingerprintOf());
    this.unwatchAbove = watchEntry(path, (isMove) => {
      this.wasMoved ||= isMove;
      this.follow();
    });
    this.timer = setInterval(() => {
      this.follow();
      this.checkLater();
    }, PRESENCE_MS).unref();
    this.follow();
    await this.following;
  }

  private follow(): void {
    this.following = this.following.then(() => this.followDirectory()).catch(() => this.check());
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.following;
    this.unwatchAbove();
    await this.closeBelow();
    await this.checking;
  }

  /** A watch follows the inode, not the name, so it is replaced with the directory. */
  private async followDirectory(): Promise<void> {
    const { path, home } = this;
    const inode = await inodeOf(path);
    const watched = inode && `${inode} ${home && (await inodeOf(join(path, home)))}`;
    if (watched === this.watched) {
      if (this.wasMoved) this.check();
      return;
    }
    this.watched = watched;
    await this.closeBelow();
    if (watched !== undefined && !this.parts.signal.aborted) this.openBelow();
    this.check();
  }

  /** Watches only folders, and on a medium only `stickpin`: a bundle has thousands of files. */
  private openBelow(): void {
    const { path, layout, home } = this;
    const onChange = () => this.check();
    const isMedium = layout === 'medium';
    if (isMedium) this.unwatchTop = watchNames(path, onChange);
    if (isMedium && home === undefined) return;
    const ignored = (_path: string, stats?: Stats) => stats?.isFile() === true;
    const depth = isMedium ? WATCH_DEPTH - 1 : WATCH_DEPTH;
    this.below = this.parts
      .open(join(path, home ?? '.'), { ignored, depth, followSymlinks: false })
      .on('raw', onChange)
      .on('error', onChange);
  }

  private async closeBelow(): Promise<void> {
    const { below } = this;
    this.unwatchTop();
    this.below = undefined;
    if (below !== undefined) await closeWatcher(below);
  }

  private checkLater(): void {
    if (this.laterChecks === 0) return;
    this.laterChecks -= 1;
    this.check();
  }

  check(): void {
    this.again = true;
    this.checking ??= this.checkUntilDone();
  }

  private async checkUntilDone(): Promise<void> {
    while (this.again && !this.parts.signal.aborted) {
      this.again = false;
      await this.settle().catch(() => undefined); // only an abort throws
    }
    this.checking = undefined;
    // Its folder `stickpin` may be new.
    if (!this.parts.signal.aborted) this.follow();
  }

  /** Reports the directory when its content no longer changes. */
  private async settle(): Promise<void> {
    const { clock, settleMs = DEFAULT_SETTLE_MS } = this.deps;
    const { signal } = this.parts;
    let last = await this.fingerprintOf();
    if (last === undefined || (last === this.seen && !this.wasMoved)) return this.report(last);
    for (;;) {
      await clock.sleep(settleMs, signal);
      const next = await this.fingerprintOf();
      if (next === last || next === undefined) return this.report(next);
      last = next;
    }
  }

  private report(fingerprint: string | undefined): void {
    const { seen: before, wasMoved, path, layout } = this;
    const { sink } = this.parts;
    const mediumId: MediumId = `dir:${path}`;
    this.wasMoved = false;
    if (fingerprint === before && (!wasMoved || before === undefined)) return;
    this.seen = fingerprint;
    this.laterChecks = LATER_CHECKS;
    if (fingerprint === undefined) sink.left(mediumId);
    else if (before === undefined) sink.arrived(folderMedium(mediumId, path, layout, () => isDirectory(path)));
    else sink.changed(mediumId);
  }

  /** A fingerprint of names, sizes and times. Returns undefined when it is no directory. */
  private async fingerprintOf(): Promise<string | undefined> {
    const { path, layout } = this;
    if (!(await isDirectory(path))) return undefined;
    const hash = createHash('sha1');
    const root = await holdWithoutLinks(path).catch(() => undefined);
    // The reason is reported when the directory is read.
    if (root === undefined) return 'unreadable';
    const tree = layout === 'medium' ? this.listMedium(root) : listTree(root, WATCH_DEPTH);
    for await (const line of tree) hash.update(line);
    return hash.digest('hex');
  }

  private async *listMedium(root: HeldFolder): AsyncGenerator<string> {
    try {
      const names = await root.names(limits.topEntries).catch((): string[] => []);
      yield `${names.sort().join('\0')}\n${(await root.stat('.').catch(() => undefined))?.mtimeMs}\n`;
      const home = await findEntry(root, 'stickpin').catch(() => undefined);
      const folder = home === undefined ? undefined : await root.openFolder(home).catch(() => undefined);
      this.home = folder && home;
      if (folder !== undefined) yield* listTree(folder, WATCH_DEPTH - 1);
    } finally {
      await root.close();
    }
  }
}

/**
 * Reports when the entry appears, disappears or is replaced (`isMove`), or its attributes change.
 * The database beside the drop folder is written all the time, so a watch that reads the whole
 * folder would be expensive.
 */
function watchEntry(path: string, onChange: (isMove: boolean) => void): () => void {
  const name = basename(path);
  return watchNames(dirname(path), (isMove, changed) => {
    if (changed === name || changed === null) onChange(isMove);
  });
}

/** Watches without reading the list of names. */
function watchNames(folder: string, onChange: (isMove: boolean, name: string | null) => void): () => void {
  try {
    const watcher = watchFolder(folder, { persistent: false }, (event, name) => onChange(event === 'rename', name));
    watcher.on('error', () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined; // the folder is not there, or can't be watched
  }
}

async function inodeOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  // The kernel reuses inode numbers, so the birth time is part of the identity.
  return found?.isDirectory() ? `${found.dev}:${found.ino}:${found.birthtimeNs}` : undefined;
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
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
