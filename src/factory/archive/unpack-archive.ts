import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm, stat, statfs } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import type { TarHeader } from '../../bundle/format/tar-header.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { layoutBlobPath, type SourceFile, sourceError } from '../images/layout-source.ts';
import { damagedFile, streamPacked } from '../layers/packed-file.ts';
import { createTarWalker } from '../layers/tar-walker.ts';

export interface StoredFile {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/** Names of an archive. INVARIANT: nothing is ever written under one of them. */
export interface ArchiveMembers {
  /** Of the archive itself, for errors. */
  readonly path: string;
  readonly files: ReadonlyMap<string, StoredFile>;
  /** Links by their names, and the name that they lead to; undefined when that is outside. */
  readonly links: ReadonlyMap<string, string | undefined>;
}

/**
 * Unpacks an archive into the blobs of a layout at `folder`, each file under its digest. Folders
 * and devices are left out; of members with one name the last counts, as in tar.
 *
 * @throws AppError `bundle/source` (`reject`) when it is no archive, damaged, cut off or hostile;
 *   `bundle/no-space` (`wait`) before it fills the filesystem
 */
export async function unpackArchive(
  path: string,
  folder: string,
  onFileBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<ArchiveMembers> {
  await checkArchive(path);
  await mkdir(join(folder, 'blobs', 'sha256'), { recursive: true });
  const { bavail, bsize } = await statfs(folder);
  const unpacking = {
    path,
    folder,
    files: new Map<string, StoredFile>(),
    links: new Map<string, string | undefined>(),
    members: 0,
    leftBytes: bavail * bsize,
    steps: [],
    file: undefined,
  } satisfies Unpacking as Unpacking;
  const walker = createTarWalker((member) => visit(unpacking, member));
  const onTar = async (chunk: Buffer) => {
    walker.write(chunk);
    for (const step of unpacking.steps.splice(0)) await step();
  };
  try {
    const onFile = async (chunk: Buffer) => onFileBytes(chunk.length);
    const file = { path, what: `archive ${path}` };
    await streamPacked(file, { onHead: (head) => refuseOthers(path, head), onFile, onTar }, signal);
    endOf(walker, file);
  } finally {
    await unpacking.file?.handle.close();
  }
  return unpacking;
}

interface OpenFile {
  readonly name: string;
  readonly temporary: string;
  readonly handle: FileHandle;
  readonly hash: Hash;
}

interface Unpacking {
  readonly path: string;
  readonly folder: string;
  readonly files: Map<string, StoredFile>;
  readonly links: Map<string, string | undefined>;
  members: number;
  leftBytes: number;
  steps: (() => Promise<void>)[];
  file: OpenFile | undefined;
}

function visit(unpacking: Unpacking, member: TarHeader): ((data: Uint8Array) => void) | undefined {
  const { path, files, links, steps } = unpacking;
  unpacking.members += 1;
  if (unpacking.members > limits.tarMembers) throw badArchive(path, `it has more than ${limits.tarMembers} members`);
  const name = innerName(member.name);
  if (name === undefined || !['0', '7', '1', '2'].includes(member.type)) return undefined;
  files.delete(name);
  links.delete(name);
  if (member.type === '1' || member.type === '2') {
    const base = member.type === '2' ? posix.dirname(name) : '';
    links.set(name, member.linkName.startsWith('/') ? undefined : innerName(posix.join(base, member.linkName)));
    return undefined;
  }
  claimSpace(unpacking, member);
  let missing = member.storedBytes;
  steps.push(() => begin(unpacking, name));
  if (missing === 0) steps.push(() => finish(unpacking, 0));
  return (data) => {
    const bytes = Buffer.from(data);
    missing -= bytes.length;
    const isLast = missing === 0;
    steps.push(async () => {
      unpacking.file?.hash.update(bytes);
      await unpacking.file?.handle.writeFile(bytes);
      if (isLast) await finish(unpacking, member.storedBytes);
    });
  };
}

/** The size is known before the data, so that a bomb fills no disk. */
function claimSpace(unpacking: Unpacking, { name, storedBytes }: TarHeader): void {
  unpacking.leftBytes -= storedBytes;
  if (unpacking.leftBytes >= 0) return;
  const message = `archive ${unpacking.path} needs more space than is free where the bundle is made, at ${JSON.stringify(name)} with ${formatBytes(storedBytes)}: free some, or choose another place with --out`;
  throw bundleError('bundle/no-space', message, { disposition: 'wait' });
}

async function begin(unpacking: Unpacking, name: string): Promise<void> {
  const temporary = join(unpacking.folder, 'incoming');
  unpacking.file = { name, temporary, handle: await open(temporary, 'w'), hash: createHash('sha256') };
}

async function finish(unpacking: Unpacking, sizeBytes: number): Promise<void> {
  const { file, folder, path, files } = unpacking;
  if (file === undefined) return;
  unpacking.file = undefined;
  await file.handle.close();
  const digest = digestFromHex(file.hash.digest('hex'));
  const named = /^blobs\/sha256\/([0-9a-f]{64})$/.exec(file.name)?.[1];
  if (named !== undefined && digest !== digestFromHex(named)) {
    await rm(file.temporary);
    throw badArchive(path, `${file.name} is damaged: its digest is ${digest}`);
  }
  await rename(file.temporary, layoutBlobPath(folder, digest));
  files.set(file.name, { digest, sizeBytes });
}

/**
 * The file behind a name. Links are followed within the archive.
 *
 * @throws AppError `bundle/source` (`reject`) when there is none, or links lead outside or in a
 *   circle
 */
export function fileOf({ path, files, links }: ArchiveMembers, name: string): StoredFile {
  const seen = new Set<string>();
  for (let at = innerName(name); at !== undefined; at = links.get(at)) {
    const file = files.get(at);
    if (file !== undefined) return file;
    if (seen.has(at)) throw badArchive(path, `${JSON.stringify(name)} is a circle of links`);
    seen.add(at);
    if (!links.has(at)) throw badArchive(path, `it has no file ${JSON.stringify(at)}`);
  }
  throw badArchive(path, `${JSON.stringify(name)} leads out of the archive`);
}

/** A name without `.` and `..`; undefined when it leads out of the archive, or is its root. */
function innerName(name: string): string | undefined {
  const inner = posix
    .normalize(name)
    .replace(/^(?:\.?\/)+/, '')
    .replace(/\/+$/, '');
  return inner === '' || inner === '.' || inner === '..' || inner.startsWith('../') ? undefined : inner;
}

async function checkArchive(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw sourceError(path, cause);
  });
  if (!found.isFile()) throw badArchive(path, 'it is not a file: give a .tar, .tar.gz or .tar.zst');
}

/** Packers that Node.js has no reader for, and what unpacks their files. */
const OTHER_PACKERS = [
  { magic: Buffer.from('fd377a585a00', 'hex'), name: 'xz', unpacker: 'unxz' },
  { magic: Buffer.from('BZh'), name: 'bzip2', unpacker: 'bunzip2' },
  { magic: Buffer.from('04224d18', 'hex'), name: 'lz4', unpacker: 'unlz4' },
] as const;

function refuseOthers(path: string, head: Buffer): void {
  const packer = OTHER_PACKERS.find(({ magic }) => head.subarray(0, magic.length).equals(magic));
  if (packer === undefined) return;
  throw badArchive(path, `it is packed with ${packer.name}: unpack it with ${packer.unpacker}, and give the .tar`);
}

function endOf(walker: ReturnType<typeof createTarWalker>, file: SourceFile): void {
  try {
    walker.end();
  } catch (error) {
    throw error instanceof AppError ? damagedFile(file, error.message, error) : error;
  }
}

export function badArchive(path: string, why: string): AppError {
  return bundleError('bundle/source', `archive ${path}: ${why}`);
}
