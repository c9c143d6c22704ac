import { createHash, type Hash } from 'node:crypto';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join, posix, relative, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import type { TarHeader } from '../../bundle/format/tar-header.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { type AppError, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { layoutBlobPath, sourceError } from '../images/layout-source.ts';
import { endTar } from '../layers/layer-file.ts';
import { streamPacked } from '../layers/packed-file.ts';
import { TarWalker } from '../layers/tar-walker.ts';
import { otherContent, otherHead, revisionLink, STORAGE, tagLink } from './other-forms.ts';
import { readRegistryStorage } from './registry-storage.ts';

export interface StoredFile {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/**
 * Unpacks into the blobs of a layout at `folder`, each file under its digest. The last of several
 * members with one name counts, as in tar. Blobs of a folder with an OCI layout are linked.
 * @throws AppError `bundle/source` when it is no archive, damaged, cut off or hostile;
 * `bundle/no-space` (`wait`) before it fills the filesystem
 */
export async function unpackArchive(
  path: string,
  folder: string,
  onFileBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<ArchiveMembers> {
  const isFolder = await checkArchive(path);
  await mkdir(join(folder, 'blobs', 'sha256'), { recursive: true });
  if (isFolder) return linkFolder(path, folder, signal);
  const { bavail, bsize } = await statfs(folder);
  const members = new ArchiveMembers(path, folder, bavail * bsize);
  const walker = new TarWalker((member) => members.visit(member));
  const onTar = async (chunk: Buffer) => {
    walker.write(chunk);
    await members.store();
  };
  try {
    const onFile = async (chunk: Buffer) => onFileBytes(chunk.length);
    const file = { path, what: `archive ${path}`, pieces: await piecesOf(path) };
    const first = await firstPieceOf(path);
    const onHead = (head: Buffer) => {
      const why = otherHead(head);
      if (why !== undefined) throw badArchive(path, why);
      if (first !== undefined && !isBegun(head)) throw badArchive(path, `it is a piece: give only the first, ${first}`);
    };
    await streamPacked(file, { onHead, onFile, onTar }, signal);
    endTar(walker, file);
  } finally {
    await members.close();
  }
  return members;
}

/** @throws AppError `bundle/source` without images, and for a link in it */
async function linkFolder(path: string, folder: string, signal: AbortSignal): Promise<ArchiveMembers> {
  const members = new ArchiveMembers(path, folder, 0, false);
  try {
    const index = await sizeIn(path, 'index.json');
    if (index !== undefined) await linkLayout(members, index);
    else if ((await readdir(join(path, STORAGE)).catch(() => [])).length > 0) await linkStorage(members, signal);
    else throw badArchive(path, otherContent(await namesIn(path)));
  } catch (cause) {
    throw sourceError(`archive ${path}, a folder without a whole OCI layout,`, cause);
  }
  return members;
}

async function linkLayout(members: ArchiveMembers, indexBytes: number): Promise<void> {
  const { path } = members;
  if (indexBytes > limits.indexBytes) throw badArchive(path, `its index.json has ${formatBytes(indexBytes)}`);
  await members.addCopy('index.json', await readFile(join(path, 'index.json')));
  for (const part of ['blobs', BLOBS]) await sizeIn(path, part);
  const names = (await readdir(join(path, BLOBS))).filter((name) => HEX.test(name));
  if (names.length > limits.tarMembers) throw badArchive(path, `it has more than ${limits.tarMembers} blobs`);
  for (const hex of names) {
    const sizeBytes = await sizeIn(path, join(BLOBS, hex));
    if (sizeBytes !== undefined) await members.addLink(join(path, BLOBS, hex), digestFromHex(hex), sizeBytes);
  }
}

async function linkStorage(members: ArchiveMembers, signal: AbortSignal): Promise<void> {
  const { blobs, repositories } = await readRegistryStorage(join(members.path, STORAGE), signal);
  for (const [digest, blob] of blobs) await members.addLink(blob.path, digest, blob.sizeBytes);
  for (const { name, tags, revisions } of repositories) {
    for (const [tag, digest] of tags) await members.addCopy(tagLink(name, tag), Buffer.from(digest));
    for (const digest of revisions) await members.addCopy(revisionLink(name, digest), Buffer.from(digest));
  }
}

const BLOBS = 'blobs/sha256';

/** Returns undefined for no file. @throws AppError `bundle/source` for a link */
async function sizeIn(path: string, name: string): Promise<number | undefined> {
  const found = await lstat(join(path, name)).catch((cause: unknown) => {
    if (systemCodeOf(cause) === 'ENOENT') return undefined;
    throw cause;
  });
  if (found?.isSymbolicLink() !== true) return found?.isFile() ? found.size : undefined;
  const message = `${name} is a link, and links are not followed: copy the folder with cp -rL ${path} COPY, and give the copy`;
  throw badArchive(path, message);
}

/** This many names are enough to decide what a folder is. */
const MAX_NAMES = 10_000;

async function namesIn(path: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(path, { recursive: true })) {
    names.push(relative(path, join(entry.parentPath, entry.name)));
    if (names.length === MAX_NAMES) break;
  }
  return names;
}

const HEX = /^[0-9a-f]{64}$/;
const MAX_PIECES = 1_000;

/**
 * The files that are one archive, in order: hauler names its pieces `haul_0.tar.zst`,
 * `haul_1.tar.zst` …, zarf `….part001` …, described in `….part000`.
 */
export async function piecesOf(path: string): Promise<readonly string[]> {
  const [, start, first, end = ''] = /^(.*_)(0)(\.[^/]*)$/.exec(path) ?? /^(.*\.part)(000)$/.exec(path) ?? [];
  if (start === undefined || first === undefined) return [path];
  const pieces = first === '0' ? [path] : [];
  for (let at = 1; at < MAX_PIECES; at += 1) {
    const piece = `${start}${String(at).padStart(first.length, '0')}${end}`;
    const found = await stat(piece).catch(() => undefined);
    if (found === undefined) break;
    if (!found.isFile()) {
      throw badArchive(path, `${piece} beside it would be its next piece, and is not a file: remove it, or rename it`);
    }
    pieces.push(piece);
  }
  return pieces.length === 0 ? [path] : pieces;
}

/** Returns undefined when its name is not that of a later piece. */
async function firstPieceOf(path: string): Promise<string | undefined> {
  const name = path.replace(/_[1-9][0-9]*(\.[^/]*)$/, '_0$1').replace(/\.part(?!000)[0-9]{3}$/, '.part000');
  return name === path || (await stat(name).catch(() => undefined)) === undefined ? undefined : name;
}

/** Whether a tar, gzip or zstd begins like this. */
export function isBegun(head: Buffer): boolean {
  return /^(?:1f8b|28b52ffd)/.test(head.toString('hex', 0, 4)) || head.toString('latin1', 257, 262) === 'ustar';
}

/** The limit for all members together: half a million usual names have 40 MiB. */
const MAX_NAMES_LENGTH = 64 * 1024 * 1024;
/** Linux follows as many. */
const MAX_LINKS = 40;

/** Names of an archive. INVARIANT: nothing is ever written under one of them. */
export class ArchiveMembers {
  readonly files = new Map<string, StoredFile>();
  /** Links by their names, and the name that they lead to; undefined when that is outside. */
  readonly links = new Map<string, string | undefined>();
  private count = 0;
  private namesLength = 0;
  private readonly steps: (() => Promise<void>)[] = [];
  private open:
    | { readonly name: string; readonly temporary: string; readonly handle: FileHandle; readonly hash: Hash }
    | undefined;

  /** `path`: of the archive itself, for errors. */
  constructor(
    readonly path: string,
    private readonly folder: string,
    private leftBytes: number,
    /** The blobs are copies, which may be moved. */
    readonly isOwn = true,
  ) {}

  visit(member: TarHeader): ((data: Uint8Array) => void) | undefined {
    this.count += 1;
    if (this.count > limits.tarMembers) throw badArchive(this.path, `it has more than ${limits.tarMembers} members`);
    const name = innerName(member.name);
    if (name === undefined || !['0', '7', '1', '2'].includes(member.type)) return undefined;
    this.namesLength += name.length + member.linkName.length;
    if (this.namesLength > MAX_NAMES_LENGTH) {
      throw badArchive(this.path, `the names of its members have more than ${formatBytes(MAX_NAMES_LENGTH)} together`);
    }
    this.files.delete(name);
    this.links.delete(name);
    if (member.type === '1' || member.type === '2') {
      const base = member.type === '2' ? posix.dirname(name) : '';
      this.links.set(name, member.linkName.startsWith('/') ? undefined : innerName(posix.join(base, member.linkName)));
      return undefined;
    }
    this.claimSpace(member);
    let missing = member.storedBytes;
    this.steps.push(() => this.begin(name));
    if (missing === 0) this.steps.push(() => this.finish(0));
    return (data) => {
      const bytes = Buffer.from(data);
      missing -= bytes.length;
      const isLast = missing === 0;
      this.steps.push(async () => {
        this.open?.hash.update(bytes);
        await this.open?.handle.writeFile(bytes);
        if (isLast) await this.finish(member.storedBytes);
      });
    };
  }

  async store(): Promise<void> {
    for (const step of this.steps.splice(0)) await step();
  }

  async close(): Promise<void> {
    await this.open?.handle.close();
  }

  /** Adds a file of a folder: `file` stays where it is. */
  async addLink(file: string, digest: Digest, sizeBytes: number): Promise<void> {
    this.files.set(`${BLOBS}/${hexOf(digest)}`, { digest, sizeBytes });
    await symlink(resolve(file), layoutBlobPath(this.folder, digest));
  }

  async addCopy(name: string, bytes: Buffer): Promise<void> {
    const digest = digestOf(bytes);
    await writeFile(layoutBlobPath(this.folder, digest), bytes);
    this.files.set(name, { digest, sizeBytes: bytes.length });
  }

  /** Follows links within the archive. @throws AppError `bundle/source` when there is no file */
  fileOf(name: string): StoredFile {
    let links = 0;
    for (let at = innerName(name); at !== undefined; at = this.links.get(at)) {
      const file = this.files.get(at);
      if (file !== undefined) return file;
      links += 1;
      if (links > MAX_LINKS)
        throw badArchive(this.path, `${JSON.stringify(name)} is a circle of links, or a long chain`);
      if (!this.links.has(at)) throw badArchive(this.path, `it has no file ${JSON.stringify(at)}`);
    }
    throw badArchive(this.path, `${JSON.stringify(name)} leads out of the archive`);
  }

  /** The size is known before the data, so that a bomb fills no disk. */
  private claimSpace({ name, storedBytes }: TarHeader): void {
    this.leftBytes -= storedBytes;
    if (this.leftBytes >= 0) return;
    const message = `archive ${this.path} needs more space than is free where the bundle is made, at ${JSON.stringify(name)} with ${formatBytes(storedBytes)}: free some, or choose another place with --out`;
    throw bundleError('bundle/no-space', message);
  }

  private async begin(name: string): Promise<void> {
    const temporary = join(this.folder, 'incoming');
    this.open = { name, temporary, handle: await open(temporary, 'w'), hash: createHash('sha256') };
  }

  private async finish(sizeBytes: number): Promise<void> {
    if (this.open === undefined) return;
    const { name, temporary, handle, hash } = this.open;
    this.open = undefined;
    await handle.close();
    const digest = digestFromHex(hash.digest('hex'));
    const named = /(?:^|\/)blobs\/sha256\/([0-9a-f]{64})$/.exec(name)?.[1];
    if (named !== undefined && digest !== digestFromHex(named)) {
      await rm(temporary);
      throw badArchive(this.path, `${name} is damaged: its digest is ${digest}`);
    }
    await rename(temporary, layoutBlobPath(this.folder, digest));
    this.files.set(name, { digest, sizeBytes });
  }
}

/** A name without `.` and `..`; undefined when it leads out of the archive, or is its root. */
function innerName(name: string): string | undefined {
  const inner = posix
    .normalize(name)
    .replace(/^(?:\.?\/)+/, '')
    .replace(/\/+$/, '');
  return inner === '' || inner === '.' || inner === '..' || inner.startsWith('../') ? undefined : inner;
}

/** Whether it is a folder. */
async function checkArchive(path: string): Promise<boolean> {
  const found = await stat(path).catch((cause: unknown) => {
    throw sourceError(path, cause);
  });
  if (found.isFile() || found.isDirectory()) return found.isDirectory();
  throw badArchive(path, 'it is neither a file nor a folder: give a .tar, .tar.gz or .tar.zst');
}

export function badArchive(path: string, why: string): AppError {
  return bundleError('bundle/source', `archive ${path}: ${why}`);
}
