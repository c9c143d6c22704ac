import { type FileHandle, lstat, mkdir, open, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { type AppError, reasonOf } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { requireTools, runTool, type Tool } from '../image/make-image.ts';
import { checkSpace } from '../output/staging.ts';
import { measureWhile } from '../run-program.ts';
import { type StickPartition, stickPartitions } from './partitions.ts';

const mdir: Tool = { name: 'mdir', package: 'mtools' };
const mdu: Tool = { name: 'mdu', package: 'mtools' };
const mcopy: Tool = { name: 'mcopy', package: 'mtools' };
const debugfs: Tool = { name: 'debugfs', package: 'e2fsprogs' };

/** Most bytes of a list of files, and most files. */
const MAX_LIST = 8 * 1024 * 1024;
const MAX_FILES = 50_000;
/** Most folders: each is one run of debugfs. */
const MAX_FOLDERS = 500;
/** Files of one call: their names must fit on a command line. */
const BATCH = 1000;
/** A folder `stickpin` is not deeper than `BUNDLE/blobs/sha256/HEX`. */
const MAX_DEPTH = 4;
/** Longest time for the lists of files of all partitions. A crafted filesystem has endless ones. */
const LIST_MS = 5 * 60 * 1000;
/** Slowest stick, in bytes per millisecond: less than USB 1.1. */
const SLOWEST = 500;
/** Longest time of one call that copies. */
const COPY_MS = 24 * 60 * 60 * 1000;
/** It excludes all that is special in mtools, debugfs or a path. */
const PLAIN = /^(?!\.\.?$)[A-Za-z0-9._+-]{1,255}$/;

/**
 * Copies the folder `stickpin` of a stick, or of the image of one, into the folder `to`: without a
 * mount, so it needs no root and the kernel does not parse a foreign filesystem.
 *
 * INVARIANT: Of the stick only plain files and folders with plain names are written, each below
 * `to`, and no more bytes than there was space for. Links are left out.
 *
 * @throws AppError `bundle/source` (`reject`) where there is none, and where it can't be read;
 *   `bundle/tool`; `bundle/no-space`
 */
export async function copyStick(path: string, to: string, signal: AbortSignal): Promise<void> {
  const before = await stat(path);
  const partitions = await partitionsOf(path);
  // Tools run in it.
  const directory = resolve(to);
  await symlink(resolve(path), join(directory, SOURCE));
  const inTime = limited(signal, LIST_MS, 'the lists of its files');
  const found: { readonly partition: StickPartition; readonly home: Home }[] = [];
  for (const partition of partitions) {
    const reader = readerOf(partition, directory);
    const home = await reader?.find(inTime).catch((error: unknown) => {
      signal.throwIfAborted();
      throw unreadable(path, `${partition.name} (${partition.filesystem}) can't be read: ${reasonOf(error)}`);
    });
    if (home !== undefined) found.push({ partition, home });
  }
  const [only, another] = found;
  if (only === undefined) throw nothingOn(path, partitions);
  if (another !== undefined) throw severalOn(path, [only.partition, another.partition]);
  await copyHome(path, only.home, join(directory, 'stickpin'), signal);
  const after = await stat(path);
  if (before.size !== after.size || before.mtimeMs !== after.mtimeMs)
    throw unreadable(path, 'it was changed while it was read: run the command again when it is finished');
}

/** Aborts with an AppError `bundle/source` when the time is over. */
function limited(signal: AbortSignal, timeMs: number, what: string): AbortSignal {
  const late = new AbortController();
  const message = `${what} took longer than ${Math.round(timeMs / 60_000)} minutes`;
  const abort = () => late.abort(bundleError('bundle/source', message));
  AbortSignal.timeout(timeMs).addEventListener('abort', abort, { once: true });
  return linkSignals([signal, late.signal]).signal;
}

/** A link to the stick: tools read parameters behind `?` and `@@` in a path. */
const SOURCE = 'stick';
/** Commands of debugfs. */
const SCRIPT = 'debugfs';

async function partitionsOf(path: string): Promise<readonly StickPartition[]> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, 'r');
    return await stickPartitions(handle);
  } catch (error) {
    throw unreadable(path, `it can't be read: ${reasonOf(error)}`);
  } finally {
    await handle?.close();
  }
}

/** The folder `stickpin` of a filesystem. */
interface Home {
  readonly sizeBytes: number;
  /** Relative to it, parents first. */
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** Copies files of one folder, at most {@link BATCH}. */
  copy(files: readonly string[], to: string, signal: AbortSignal): Promise<void>;
}

interface HomeReader {
  /** Returns undefined when there is none. @throws AppError `bundle/tool`, `bundle/source` */
  find(signal: AbortSignal): Promise<Home | undefined>;
}

/** Returns undefined for other filesystems. */
function readerOf({ filesystem, offset, unitBytes }: StickPartition, directory: string): HomeReader | undefined {
  switch (filesystem) {
    case 'vfat':
      return { find: (signal) => findOnFat({ offset, unitBytes, directory }, signal) };
    case 'ext4':
      return { find: (signal) => findOnExt4({ offset, directory }, signal) };
    default:
      return undefined;
  }
}

async function copyHome(path: string, home: Home, to: string, signal: AbortSignal): Promise<void> {
  await checkSpace(dirname(to), home.sizeBytes);
  await mkdir(to);
  for (const folder of home.folders) await mkdir(join(to, folder));
  let copiedBytes = 0;
  for (const folder of ['', ...home.folders]) {
    const inFolder = home.files.filter((file) => (dirname(file) === '.' ? '' : dirname(file)) === folder);
    for (let at = 0; at < inFolder.length; at += BATCH) {
      const files = inFolder.slice(at, at + BATCH);
      const maxBytes = home.sizeBytes - copiedBytes;
      copiedBytes += await copyBatch({ home, files, to: join(to, folder), maxBytes }, signal).catch(
        (error: unknown) => {
          signal.throwIfAborted();
          throw unreadable(path, `${join('stickpin', folder)} can't be read: ${reasonOf(error)}`);
        },
      );
    }
  }
}

interface CopyBatch {
  readonly home: Home;
  readonly files: readonly string[];
  readonly to: string;
  readonly maxBytes: number;
}

/**
 * The sizes in a list may be forged, so the copied bytes are measured.
 *
 * @returns the bytes of the files
 */
async function copyBatch({ home, files, to, maxBytes }: CopyBatch, signal: AbortSignal): Promise<number> {
  const tooLarge = bundleError('bundle/source', 'its files are larger than the list of them says');
  const stop = new AbortController();
  const sizeOf = (file: string) =>
    stat(join(to, basename(file))).then(
      ({ size }) => size,
      () => 0,
    );
  const measure = async () => (await Promise.all(files.map(sizeOf))).reduce((sum, size) => sum + size, 0);
  const stopAbove = (bytes: number) => {
    if (bytes > maxBytes) stop.abort(tooLarge);
  };
  const timeMs = Math.min(LIST_MS + Math.ceil(maxBytes / SLOWEST), COPY_MS);
  const inTime = limited(linkSignals([signal, stop.signal]).signal, timeMs, 'the copy');
  await measureWhile(measure, stopAbove, () => home.copy(files, to, inTime));
  const bytes = await measure();
  if (bytes > maxBytes) throw tooLarge;
  return bytes;
}

interface FatPlace {
  readonly offset: number;
  readonly unitBytes: number;
  readonly directory: string;
}

async function findOnFat({ offset, unitBytes, directory }: FatPlace, signal: AbortSignal): Promise<Home | undefined> {
  await requireTools([mdir, mdu, mcopy]);
  const drive = ['-i', `${SOURCE}@@${offset}`];
  // The check of the geometry means nothing for an image.
  const env = { MTOOLS_SKIP_CHECK: '1', MTOOLSRC: '/dev/null' };
  const run = async (tool: Tool, ...args: string[]) =>
    (await runTool(tool, { args: [...drive, ...args], directory, env, maxText: MAX_LIST }, signal)).stdout;
  const top = linesOf(await run(mdir, '-b', '::/'));
  const name = top.map((line) => /^::\/(stickpin)\/$/i.exec(line)?.[1]).find((one) => one !== undefined);
  if (name === undefined) return undefined;
  const home = `::/${name}`;
  const listed = linesOf(await run(mdir, '-b', '-s', home));
  const odd = listed.find((line) => !line.startsWith(`${home}/`));
  if (odd !== undefined) throw oddLine(odd);
  const below = listed.map((line) => line.slice(home.length + 1));
  const entries = below.filter((line) => line !== '');
  const folders = entries.filter((entry) => entry.endsWith('/')).map((entry) => entry.slice(0, -1));
  const files = entries.filter((entry) => !entry.endsWith('/'));
  const clusters = Number(/(\d+)\s*$/.exec(await run(mdu, '-s', home))?.[1] ?? 0);
  return {
    sizeBytes: clusters * unitBytes,
    // The case of names means nothing on FAT.
    ...checked(folders, files, (path) => path.toLowerCase()),
    copy: async (batch, to, stop) => {
      // -Q: the first error ends it; -m: files keep their time; -n: it never prompts.
      const args = ['-Q', '-m', '-n', ...batch.map((file) => `${home}/${file}`), `${to}/`];
      await runTool(mcopy, { args: [...drive, ...args], directory, env }, stop);
    },
  };
}

interface Ext4Entry {
  readonly inode: string;
  readonly kind: 'file' | 'folder' | 'other';
  readonly name: string;
  readonly sizeBytes: number;
}

async function findOnExt4(
  { offset, directory }: Omit<FatPlace, 'unitBytes'>,
  signal: AbortSignal,
): Promise<Home | undefined> {
  await requireTools([debugfs]);
  const run = async (stop: AbortSignal, ...how: string[]) => {
    const args = [...how, `${SOURCE}?offset=${offset}`];
    const { stdout, stderr } = await runTool(debugfs, { args, directory, maxText: MAX_LIST }, stop);
    // It ends with 0 in any case. Its first line is its version.
    const [fault] = linesOf(stderr).filter((line) => line.trim() !== '' && !/^debugfs \d/.test(line));
    if (fault !== undefined) throw bundleError('bundle/tool', `debugfs: ${oneLine(fault)}`);
    return stdout;
  };
  const list = async (inode: string) => linesOf(await run(signal, '-R', `ls -p <${inode}>`)).flatMap(ext4Entry);
  const home = (await list('2')).find(({ kind, name }) => kind === 'folder' && name.toLowerCase() === 'stickpin');
  if (home === undefined) return undefined;
  const folders: string[] = [];
  const files: string[] = [];
  const entries = new Map<string, Ext4Entry>();
  const open = [{ path: '', inode: home.inode }];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    for (const entry of await list(next.inode)) {
      const path = next.path === '' ? entry.name : `${next.path}/${entry.name}`;
      if (entry.kind === 'file') {
        files.push(path);
        entries.set(path, entry);
      }
      if (entry.kind !== 'folder') continue;
      folders.push(path);
      open.push({ path, inode: entry.inode });
    }
    checked(folders, files);
  }
  return {
    sizeBytes: [...entries.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    ...checked(folders, files),
    copy: async (batch, to, stop) => {
      // Relative: it takes a blank for the end of a path.
      const target = relative(directory, to);
      const lines = batch.map((file) => `dump <${entries.get(file)?.inode}> ${join(target, basename(file))}`);
      await writeFile(join(directory, SCRIPT), `${lines.join('\n')}\n`);
      await run(stop, '-f', SCRIPT);
      for (const file of batch) await cutTo(entries.get(file)?.sizeBytes ?? 0, join(to, basename(file)));
    },
  };
}

/** ext4 keeps this many bytes of a file with `inline_data` in the inode itself. */
const INLINE_BYTES = 60;

/** debugfs writes the whole field of a smaller file in its inode. */
async function cutTo(sizeBytes: number, path: string): Promise<void> {
  if (sizeBytes < INLINE_BYTES && (await lstat(path)).size === INLINE_BYTES) await truncate(path, sizeBytes);
}

/**
 * Parses `/12/100644/0/0/oci-layout/31/` of `ls -p`. The folder itself and its parent are left out.
 * @throws AppError `bundle/source` for another line, for example after a line break in a name
 */
function ext4Entry(line: string): readonly Ext4Entry[] {
  const fields = /^\/(\d{1,10})\/(\d{5,6})\/-?\d+\/-?\d+\/(.*)\/(\d*)\/$/s.exec(line);
  const [, inode, mode, name, size] = fields ?? [];
  if (inode === undefined || mode === undefined || name === undefined) throw oddLine(line);
  if (inode === '0' || name === '.' || name === '..') return [];
  const kind = mode.startsWith('10') ? 'file' : mode.startsWith('04') ? 'folder' : 'other';
  return [{ inode, kind, name, sizeBytes: Number(size) }];
}

function oddLine(line: string): AppError {
  const message = `the list of its files has the line '${oneLine(line).slice(0, 200)}', as from a damaged name. Mount it read-only, and name the folder`;
  return bundleError('bundle/source', message);
}

/** @throws AppError `bundle/source` for what no stick has, and what can't be copied safely */
function checked(
  folders: readonly string[],
  files: readonly string[],
  keyOf = (path: string) => path,
): Pick<Home, 'folders' | 'files'> {
  if (folders.length > MAX_FOLDERS || files.length > MAX_FILES) {
    const message = `its folder stickpin has more than ${MAX_FOLDERS} folders or ${MAX_FILES} files: keep nothing but bundles in it`;
    throw bundleError('bundle/source', message);
  }
  const odd = [...folders, ...files].find((entry) => {
    const names = entry.split('/');
    return names.length > MAX_DEPTH || !names.every((name) => PLAIN.test(name));
  });
  const seen = new Set<string>();
  const twice = [...folders, ...files].find((entry) => seen.size === seen.add(keyOf(entry)).size);
  if (odd === undefined && twice !== undefined) {
    const message = `'${twice}' is twice in its folder stickpin: the filesystem is damaged`;
    throw bundleError('bundle/source', message);
  }
  if (odd === undefined) return { folders: [...folders].sort(), files };
  const message = `'${oneLine(odd).slice(0, 200)}' in its folder stickpin has another name or place than a file of a bundle. Mount it read-only, and name the folder`;
  throw bundleError('bundle/source', message);
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function nothingOn(path: string, partitions: readonly StickPartition[]): AppError {
  const foreign = partitions.find(({ filesystem }) => filesystem !== 'vfat' && filesystem !== 'ext4');
  if (partitions.length === 0) {
    return unreadable(
      path,
      "it has no filesystem that is known: 'stickpin bundle create --filesystem' makes the image of a stick",
    );
  }
  if (foreign !== undefined) {
    const what = `${foreign.name} has ${foreign.filesystem}, and only vfat and ext4 are read without a mount`;
    return unreadable(path, `${what}: mount it read-only, and name the folder`);
  }
  return unreadable(path, 'it has no folder stickpin, in which nodes search for bundles');
}

function severalOn(path: string, [first, second]: readonly [StickPartition, StickPartition]): AppError {
  const why = `${first.name} and ${second.name} have a folder stickpin each, and a node takes them for two sticks`;
  return unreadable(path, `${why}: name one partition, or mount one and name its folder`);
}

function unreadable(path: string, why: string): AppError {
  return bundleError('bundle/source', `${path}: ${why}`);
}
