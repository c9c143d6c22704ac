import { createHash } from 'node:crypto';
import { access, chmod, constants, open, readdir, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { delimiter, join, relative } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { limits } from '../../bundle/limits.ts';
import type { StickFilesystem } from '../../domain/model/machine.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { succeeds } from '../../platform/async/concurrency.ts';
import { defined } from '../../platform/defined.ts';
import { formatBytes } from '../../platform/sizes.ts';
import type { ProgressListener } from '../progress.ts';
import { measureWhile, runProgram } from '../run-program.ts';
import {
  IMAGE_LABEL,
  type ImageLayout,
  isTooManyForFat,
  layoutOf,
  PARTITION_OFFSET,
  partitionTable,
  SECTOR_BYTES,
} from './image-layout.ts';

const mkfsVfat: Tool = { name: 'mkfs.vfat', package: 'dosfstools' };
const mmd: Tool = { name: 'mmd', package: 'mtools' };
const mcopy: Tool = { name: 'mcopy', package: 'mtools' };
const mkfsExt4: Tool = { name: 'mkfs.ext4', package: 'e2fsprogs' };
const debugfs: Tool = { name: 'debugfs', package: 'e2fsprogs' };

export const imageTools: Readonly<Record<StickFilesystem, readonly Tool[]>> = {
  vfat: [mkfsVfat, mmd, mcopy],
  ext4: [mkfsExt4, debugfs],
};

/** The unit of blocks in stat(2). */
const BLOCK_BYTES = 512;

interface ImageOptions {
  readonly filesystem: StickFilesystem;
  /** Time of every file (RFC 3339). */
  readonly created: string;
  /** Ids of disk and filesystem are made from it. */
  readonly seed: string;
  readonly maxBytes?: number;
  readonly onProgress: ProgressListener;
}

/** Paths are relative to `root`, sorted, folders first, with no characters but `A-Za-z0-9._+/-`. */
export interface Medium {
  readonly root: string;
  readonly folders: readonly string[];
  readonly files: readonly { readonly path: string; readonly sizeBytes: number }[];
}

/**
 * A partition table and a filesystem with the medium, made without root. The same content, modes,
 * options and versions of tools give the same bytes.
 *
 * @throws AppError `bundle/tool`; `bundle/option` when FAT can't hold the content or the image is
 *   too large; system errors as they are
 */
export async function makeImage(
  medium: Medium,
  image: string,
  options: ImageOptions,
  signal: AbortSignal,
): Promise<ImageLayout> {
  const { filesystem, maxBytes = Number.POSITIVE_INFINITY } = options;
  const layout = imageLayoutOf(medium, filesystem);
  if (layout.imageBytes > maxBytes) {
    const message = `--volume-size ${formatBytes(maxBytes)} is too small: an image needs ${formatBytes(layout.imageBytes)}`;
    throw bundleError('bundle/option', message);
  }
  const id = createHash('sha256').update(`${options.seed} ${filesystem}`).digest();
  await writeFile(image, partitionTable(filesystem, layout.partitionBytes, id), { flag: 'wx' });
  await truncate(image, layout.imageBytes);
  const making: Making = {
    medium,
    image: relative(medium.root, image),
    layout,
    id,
    seconds: Math.floor(Date.parse(options.created) / 1000),
  };
  const totalBytes = medium.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const report = (doneBytes: number) =>
    options.onProgress({ kind: 'pack', doneBytes: Math.min(doneBytes, totalBytes), totalBytes });
  // The written part of a sparse file shows the progress.
  await measureWhile(
    async () => (await stat(image)).blocks * BLOCK_BYTES,
    report,
    () => (filesystem === 'vfat' ? makeVfat(making, signal) : makeExt4(making, signal)),
  );
  report(totalBytes);
  await syncImage(image);
  return layout;
}

interface Making {
  readonly medium: Medium;
  /** Relative to the medium: tools read parameters behind `?` and `@@` in a path. */
  readonly image: string;
  readonly layout: ImageLayout;
  /** It has at least 32 bytes. */
  readonly id: Buffer;
  readonly seconds: number;
}

/** @throws AppError `bundle/option` (`reject`) when FAT can't hold it */
export function imageLayoutOf(medium: Medium, filesystem: StickFilesystem): ImageLayout {
  if (filesystem === 'vfat') checkFat(medium);
  return layoutOf(filesystem, {
    folders: medium.folders.length,
    files: medium.files.map(({ sizeBytes }) => sizeBytes),
  });
}

/**
 * Changes modes and times of its files, so that the image has nothing of this machine.
 *
 * @param created time of every file (RFC 3339)
 */
export async function ownMedium(root: string, created: string): Promise<Medium> {
  const medium = await listMedium(root);
  await normalise(medium, new Date(created));
  return medium;
}

async function listMedium(root: string): Promise<Medium> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const named = entries.map((entry) => ({ entry, path: relative(root, join(entry.parentPath, entry.name)) }));
  named.sort((a, b) => (a.path < b.path ? -1 : 1));
  const folders = named.filter(({ entry }) => entry.isDirectory()).map(({ path }) => path);
  const files = [];
  for (const { entry, path } of named) {
    if (entry.isFile()) files.push({ path, sizeBytes: (await stat(join(root, path))).size });
  }
  return { root, folders, files };
}

function checkFat({ folders, files }: Medium): void {
  const large = files.find(({ sizeBytes }) => sizeBytes > limits.blobBytes);
  if (large !== undefined) {
    const message = `${large.path} has ${formatBytes(large.sizeBytes)}, but a file on FAT must be smaller than 4 GiB: use --filesystem ext4`;
    throw bundleError('bundle/option', message);
  }
  for (const folder of folders) {
    const names = files
      .filter(({ path }) => path.startsWith(`${folder}/`))
      .map(({ path }) => path.slice(folder.length + 1));
    if (!isTooManyForFat(names.filter((name) => !name.includes('/')))) continue;
    const message = `the bundle has ${names.length} files, and a folder on FAT has room for about 10,900 blobs: use --filesystem ext4, or a bundle in one file (FILE.stickpin.tar)`;
    throw bundleError('bundle/option', message);
  }
}

async function normalise({ root, folders, files }: Medium, time: Date): Promise<void> {
  for (const { path } of files) {
    await chmod(join(root, path), 0o644);
    await utimes(join(root, path), time, time);
  }
  for (const path of [...folders].reverse()) {
    await chmod(join(root, path), 0o755);
    await utimes(join(root, path), time, time);
  }
}

/** Files of one call: their names must fit on a command line. */
const BATCH = 1000;

async function makeVfat({ medium, image, layout, id, seconds }: Making, signal: AbortSignal): Promise<void> {
  const sectors = PARTITION_OFFSET / SECTOR_BYTES;
  const sizes = ['-F', '32', '-S', `${SECTOR_BYTES}`, '-s', `${layout.unitBytes / SECTOR_BYTES}`];
  const names = ['-n', IMAGE_LABEL, '-i', id.subarray(4, 8).toString('hex'), '--invariant', '--mbr=n'];
  const place = ['-h', `${sectors}`, '--offset', `${sectors}`, image, `${layout.partitionBytes / 1024}`];
  const { root: directory } = medium;
  await runTool(mkfsVfat, { args: [...sizes, ...names, ...place], directory }, signal);
  const drive = ['-i', `${image}@@${PARTITION_OFFSET}`];
  // The check of the geometry means nothing for an image.
  const env = { MTOOLS_SKIP_CHECK: '1', MTOOLSRC: '/dev/null', SOURCE_DATE_EPOCH: `${seconds}` };
  for (const folder of medium.folders) await runTool(mmd, { args: [...drive, `::/${folder}`], directory, env }, signal);
  for (const folder of medium.folders) {
    const inFolder = medium.files.filter(({ path }) => path.slice(0, path.lastIndexOf('/')) === folder);
    for (let at = 0; at < inFolder.length; at += BATCH) {
      const paths = inFolder.slice(at, at + BATCH).map(({ path }) => path);
      // -Q: the first error ends it; -m: files keep their time.
      const args = [...drive, '-Q', '-m', ...paths, `::/${folder}/`];
      await runTool(mcopy, { args, directory, env }, signal);
    }
  }
}

/** debugfs keeps order and times; mkfs.ext4 -d takes those of the folder and its inodes. */
async function makeExt4({ medium, image, layout, id, seconds }: Making, signal: AbortSignal): Promise<void> {
  const env = { E2FSPROGS_FAKE_TIME: `${Math.max(1, seconds)}`, SOURCE_DATE_EPOCH: `${seconds}` };
  const extended = [`offset=${PARTITION_OFFSET}`, `hash_seed=${uuidFrom(id.subarray(16))}`, 'root_owner=0:0'];
  const args = [
    ...['-q', '-F', '-t', 'ext4', '-L', IMAGE_LABEL, '-U', uuidFrom(id), '-E', extended.join(',')],
    // Nodes mount it read-only, so a journal would only take space.
    ...['-O', '^has_journal,^resize_inode', '-m', '0', '-b', `${layout.unitBytes}`, '-I', '256'],
    ...['-N', `${layout.inodes}`, image, `${layout.partitionBytes / 1024}k`],
  ];
  const { root: directory } = medium;
  await runTool(mkfsExt4, { args, directory, env }, signal);
  const folders = medium.folders.map((path) => `mkdir ${path}`);
  const files = medium.files.map(({ path }) => `write ${path} ${path}`);
  const script = `${image}.debugfs`;
  await writeFile(join(directory, script), `${[...folders, ...files].join('\n')}\n`);
  const filling = ['-w', '-f', script, `${image}?offset=${PARTITION_OFFSET}`];
  const { stderr } = await runTool(debugfs, { args: filling, directory, env }, signal);
  await rm(join(directory, script));
  // It ends with 0 in any case. Its first line is its version.
  const [fault] = stderr.split('\n').filter((line) => line.trim() !== '' && !/^debugfs \d/.test(line));
  if (fault !== undefined) throw toolError(debugfs, fault);
}

/** A UUID of version 8 (RFC 9562) out of at least 16 bytes. */
function uuidFrom(bytes: Buffer): string {
  const first = Buffer.from(bytes.subarray(0, 16));
  first.writeUInt8((first.readUInt8(6) & 0x0f) | 0x80, 6);
  first.writeUInt8((first.readUInt8(8) & 0x3f) | 0x80, 8);
  return first.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

async function syncImage(image: string): Promise<void> {
  const file = await open(image, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A program of the system, and the Debian package that has it. */
export interface Tool {
  readonly name: string;
  readonly package: string;
}

interface ToolRun {
  readonly args: readonly string[];
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Bytes of stdout: more is an error. The default keeps the last 64 Ki characters. */
  readonly maxText?: number;
}

const MAX_TEXT = 64 * 1024;

/**
 * Runs it without a terminal, so that it can't prompt. An abort kills it.
 * @returns its output, or the last part of it
 * @throws AppError `bundle/tool` when it is missing, fails, with its last line, or prints more than
 * `maxText`
 */
export async function runTool(
  tool: Tool,
  { args, directory, env, maxText }: ToolRun,
  signal: AbortSignal,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  signal.throwIfAborted();
  const path = await pathOf(tool);
  const output = new ToolOutput(maxText);
  const options = {
    env: { ...process.env, LC_ALL: 'C', TZ: 'UTC', ...env },
    ...defined({ cwd: directory }),
    detached: true,
  };
  const ended = await runProgram(path, args, (chunk, kill) => output.add(chunk, kill), signal, options);
  if (ended.kind === 'error') throw toolError(tool, `can't be started: ${reasonOf(ended.error)}`);
  if (output.isTooLong) throw toolError(tool, 'it printed too much, as for a damaged filesystem');
  const stdout = output.text();
  if (ended.code === 0) return { stdout, stderr: ended.errors };
  throw toolError(tool, lastLine(ended.errors) || lastLine(stdout) || `exit code ${ended.code}`);
}

/** All of stdout up to a maximum, or the last part. */
class ToolOutput {
  private chunks: Buffer[] = [];
  private sizeBytes = 0;
  isTooLong = false;

  constructor(private readonly maxBytes: number | undefined) {}

  add(chunk: Buffer, kill: () => void): void {
    if (this.isTooLong) return;
    this.chunks.push(chunk);
    this.sizeBytes += chunk.length;
    if (this.maxBytes === undefined) {
      while (this.sizeBytes - (this.chunks[0]?.length ?? 0) > MAX_TEXT) {
        this.sizeBytes -= this.chunks.shift()?.length ?? 0;
      }
    } else if (this.sizeBytes > this.maxBytes) {
      this.isTooLong = true;
      this.chunks = [];
      kill();
    }
  }

  text(): string {
    const text = Buffer.concat(this.chunks).toString('utf8');
    return this.maxBytes === undefined ? text.slice(-MAX_TEXT) : text;
  }
}

/** @throws AppError `bundle/tool` (`reject`) with all missing programs and their packages */
export async function requireTools(tools: readonly Tool[]): Promise<void> {
  const missing: Tool[] = [];
  for (const tool of tools) if ((await findTool(tool)) === undefined) missing.push(tool);
  if (missing.length > 0) throw notInstalled(missing);
}

function toolError({ name }: Tool, why: string) {
  return bundleError('bundle/tool', `${name}: ${why}`);
}

async function pathOf(tool: Tool): Promise<string> {
  const path = await findTool(tool);
  if (path === undefined) throw notInstalled([tool]);
  return path;
}

/** The PATH of ordinary users lacks the folders of programs that need no root here. */
async function findTool({ name }: Tool): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  for (const folder of folders.filter((one) => one !== '')) {
    const path = join(folder, name);
    if (await succeeds(access(path, constants.X_OK))) return path;
  }
  return undefined;
}

function notInstalled(tools: readonly Tool[]) {
  const names = tools.map(({ name }) => name).join(', ');
  const packages = [...new Set(tools.map((tool) => tool.package))].join(' ');
  const are = tools.length === 1 ? 'is' : 'are';
  const message = `${names} ${are} not installed: install ${packages}, on Debian with apt-get install ${packages}`;
  return bundleError('bundle/tool', message);
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
