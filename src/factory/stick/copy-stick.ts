import { type FileHandle, mkdir, open, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { type AppError, reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { requireTools, runTool, type Tool } from '../image/make-image.ts';
import { checkSpace } from '../output/staging.ts';
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
/** Nothing that mtools, debugfs or a path could read as anything else. */
const PLAIN = /^(?!\.\.?$)[A-Za-z0-9._+-]{1,255}$/;

/**
 * Copies the folder `stickpin` of a stick, or of the image of one, into the folder `to`: without a
 * mount, so it needs no root and the kernel does not parse a foreign filesystem.
 *
 * INVARIANT: Of the stick only plain files and folders with plain names are written, each below
 * `to`. Links are left out.
 *
 * @throws AppError `bundle/source` (`reject`) where there is none, and where it can't be read;
 *   `bundle/tool`; `bundle/no-space`
 */
export async function copyStick(path: string, to: string, signal: AbortSignal): Promise<void> {
  const before = await stat(path);
  const partitions = await partitionsOf(path);
  await symlink(resolve(path), join(to, SOURCE));
  const found: { readonly partition: StickPartition; readonly home: Home }[] = [];
  for (const partition of partitions) {
    const reader = readerOf(partition, to);
    const home = await reader?.find(signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw unreadable(path, `${partition.name} (${partition.filesystem}) can't be read: ${reasonOf(error)}`);
    });
    if (home !== undefined) found.push({ partition, home });
  }
  const [only, another] = found;
  if (only === undefined) throw nothingOn(path, partitions);
  if (another !== undefined) throw severalOn(path, [only.partition, another.partition]);
  await copyHome(path, only.home, join(to, 'stickpin'), signal);
  const after = await stat(path);
  if (before.size !== after.size || before.mtimeMs !== after.mtimeMs)
    throw unreadable(path, 'it was changed while it was read: run the command again when it is finished');
}

/** A link to the stick: tools read parameters behind `?` and `@@` in a path. */
const SOURCE = 'stick';

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
  /** Undefined when there is none. @throws AppError `bundle/tool`, `bundle/source` */
  find(signal: AbortSignal): Promise<Home | undefined>;
}

/** Undefined for other filesystems. */
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
  for (const folder of ['', ...home.folders]) {
    const inFolder = home.files.filter((file) => (dirname(file) === '.' ? '' : dirname(file)) === folder);
    for (let at = 0; at < inFolder.length; at += BATCH) {
      await home.copy(inFolder.slice(at, at + BATCH), join(to, folder), signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw unreadable(path, `${join('stickpin', folder)} can't be read: ${reasonOf(error)}`);
      });
    }
  }
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
  const below = linesOf(await run(mdir, '-b', '-s', home)).map((line) => line.slice(home.length + 1));
  const entries = below.filter((line) => line !== '');
  const folders = entries.filter((entry) => entry.endsWith('/')).map((entry) => entry.slice(0, -1));
  const files = entries.filter((entry) => !entry.endsWith('/'));
  const clusters = Number(/(\d+)\s*$/.exec(await run(mdu, '-s', home))?.[1] ?? 0);
  return {
    sizeBytes: clusters * unitBytes,
    ...checked(folders, files),
    copy: async (batch, to) => {
      // -Q: the first error ends it; -m: files keep their time.
      await run(mcopy, '-Q', '-m', ...batch.map((file) => `${home}/${file}`), `${to}/`);
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
  const run = async (...how: string[]) => {
    const args = [...how, `${SOURCE}?offset=${offset}`];
    const { stdout, stderr } = await runTool(debugfs, { args, directory, maxText: MAX_LIST }, signal);
    // It ends with 0 in any case. Its first line is its version.
    const [fault] = linesOf(stderr).filter((line) => line.trim() !== '' && !/^debugfs \d/.test(line));
    if (fault !== undefined) throw bundleError('bundle/tool', `debugfs: ${oneLine(fault)}`);
    return stdout;
  };
  const list = async (inode: string) => linesOf(await run('-R', `ls -p <${inode}>`)).flatMap(ext4Entry);
  const home = (await list('2')).find(({ kind, name }) => kind === 'folder' && name.toLowerCase() === 'stickpin');
  if (home === undefined) return undefined;
  const folders: string[] = [];
  const files = new Map<string, Ext4Entry>();
  const open = [{ path: '', inode: home.inode }];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    for (const entry of await list(next.inode)) {
      const path = next.path === '' ? entry.name : `${next.path}/${entry.name}`;
      if (entry.kind === 'file') files.set(path, entry);
      if (entry.kind !== 'folder') continue;
      folders.push(path);
      open.push({ path, inode: entry.inode });
    }
    checked(folders, [...files.keys()]);
  }
  return {
    sizeBytes: [...files.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    ...checked(folders, [...files.keys()]),
    copy: async (batch, to) => {
      const lines = batch.map(
        (file) => `dump <${files.get(file)?.inode}> ${join(to, file.slice(file.lastIndexOf('/') + 1))}`,
      );
      const script = join(directory, 'debugfs');
      await writeFile(script, `${lines.join('\n')}\n`);
      await run('-f', script);
    },
  };
}

/** `/12/100644/0/0/oci-layout/31/` of `ls -p`. The folder itself and its parent are left out. */
function ext4Entry(line: string): readonly Ext4Entry[] {
  const [, inode, mode, name, size] = /^\/(\d{1,10})\/(\d{5,6})\/\d+\/\d+\/(.+)\/(\d*)\/$/.exec(line) ?? [];
  if (inode === undefined || mode === undefined || name === undefined || inode === '0') return [];
  if (name === '.' || name === '..') return [];
  const kind = mode.startsWith('10') ? 'file' : mode.startsWith('04') ? 'folder' : 'other';
  return [{ inode, kind, name, sizeBytes: Number(size) }];
}

/** @throws AppError `bundle/source` for what no stick has, and what can't be copied safely */
function checked(folders: readonly string[], files: readonly string[]): Pick<Home, 'folders' | 'files'> {
  if (folders.length > MAX_FOLDERS || files.length > MAX_FILES) {
    const message = `its folder stickpin has more than ${MAX_FOLDERS} folders or ${MAX_FILES} files: keep nothing but bundles in it`;
    throw bundleError('bundle/source', message);
  }
  const odd = [...folders, ...files].find((entry) => {
    const names = entry.split('/');
    return names.length > MAX_DEPTH || !names.every((name) => PLAIN.test(name));
  });
  if (odd === undefined) return { folders: [...folders].sort(), files };
  const message = `'${oneLine(odd).slice(0, 200)}' in its folder stickpin has another name or place than a file of a bundle. Mount it read-only, and name the folder`;
  throw bundleError('bundle/source', message);
}

function linesOf(text: string): string[] {
  if (text.length >= MAX_LIST) throw bundleError('bundle/source', 'the list of its files is too long');
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
