import { join } from 'node:path';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import { readTarMembers, type TarMember } from '../format/tar-header.ts';
import { holdAround, openBundleDirectory } from './bundle-directory.ts';
import type { BundleFile, FileBundleReader } from './bundle-reader.ts';
import { gone, mediaError, type OpenedFile, openRegularFileIn, streamOpened } from './open-file.ts';

export function isBundleTar(path: string): boolean {
  return /\.stickpin\.tar$/i.test(path);
}

/**
 * A tar file by its name, else a directory. Opening touches nothing.
 *
 * @param root of the medium: no link between the two is followed. Default: a user named the bundle
 */
export function openBundle(path: string, root?: string): FileBundleReader {
  return isBundleTar(path) ? openBundleTar(path, root) : openBundleDirectory(path, root);
}

/**
 * Reads a bundle in one uncompressed tar file, in place. Opening reads nothing. `bundle.dsse.json`
 * is read without other members; the first other access reads all headers, once. No link between
 * `root` and the file is followed, see `holdOnMedium()`. Its methods throw as {@link
 * FileBundleReader}, and `bundle/tar` (`reject`) when the archive is damaged.
 */
function openBundleTar(path: string, root?: string): FileBundleReader {
  const tar: Tar = { path, open: () => openTar(path, root) };
  const members = shareScan((signal) => scanAll(tar, signal));
  const find = async (name: string, signal: AbortSignal) => (await members(signal)).get(name);
  const blobName = (digest: Digest) => `blobs/sha256/${hexOf(digest)}`;
  return {
    path,
    hold: (run) => run(),
    readFile: async (name, maxBytes, signal) => {
      const member = name === 'bundle.dsse.json' ? await findEnvelope(tar, signal) : await find(name, signal);
      return readMember(tar, name, member, maxBytes, signal);
    },
    placeOf: async (digest, signal) => {
      const member = await find(blobName(digest), signal);
      return { file: path, startByte: member?.offset ?? 0, sizeBytes: member?.sizeBytes };
    },
    sizeOf: async (digest, signal) => (await find(blobName(digest), signal))?.sizeBytes,
    async *read(digest, startByte, signal, allocate) {
      const member = await find(blobName(digest), signal);
      if (member === undefined) throw gone(join(path, blobName(digest)));
      const end = member.offset + member.sizeBytes;
      yield* streamOpened(path, tar.open, member.offset + startByte, signal, end, allocate);
    },
  };
}

/** Opened for each access. */
interface Tar {
  readonly path: string;
  open(): Promise<OpenedFile | undefined>;
}

async function openTar(path: string, root: string | undefined): Promise<OpenedFile | undefined> {
  const { folder, name } = await holdAround(path, root);
  try {
    return folder && (await openRegularFileIn(folder, name));
  } finally {
    await folder?.close();
  }
}

/** Other members are not remembered: their names may have any length. */
const OURS = /^(?:oci-layout|bundle\.dsse\.json|index\.json|blobs\/sha256\/[0-9a-f]{64})$/;

type Members = ReadonlyMap<string, TarMember>;

/** All callers share one scan. When the caller that started it aborts, the next starts again. */
function shareScan(scan: (signal: AbortSignal) => Promise<Members>): (signal: AbortSignal) => Promise<Members> {
  let shared: { readonly members: Promise<Members>; readonly owner: AbortSignal } | undefined;
  return async (signal) => {
    for (;;) {
      signal.throwIfAborted();
      shared ??= { members: scan(signal), owner: signal };
      const mine = shared;
      try {
        return await mine.members;
      } catch (error) {
        if (shared === mine) shared = undefined;
        if (signal.aborted || !mine.owner.aborted) throw error;
      }
    }
  };
}

async function scanAll(tar: Tar, signal: AbortSignal): Promise<Members> {
  const found = new Map<string, TarMember>();
  await scan(tar, signal, (member) => {
    // Later members of the same name are ignored, also for the envelope.
    const name = member.name.toLowerCase();
    if (OURS.test(name) && !found.has(name)) found.set(name, member);
    return 'go on';
  });
  return found;
}

async function findEnvelope(tar: Tar, signal: AbortSignal): Promise<TarMember> {
  let first: TarMember | undefined;
  await scan(tar, signal, (member) => {
    first = member;
    return 'stop';
  });
  if (first?.name.toLowerCase() === 'bundle.dsse.json') return first;
  const message = `${quotedPath(tar.path)}: bundle.dsse.json is not its first member: make it with tar -cf FILE -C BUNDLE bundle.dsse.json oci-layout index.json blobs`;
  throw bundleError('bundle/tar', message);
}

async function scan(
  { path, open }: Tar,
  signal: AbortSignal,
  visit: (member: TarMember) => 'go on' | 'stop',
): Promise<void> {
  signal.throwIfAborted();
  const opened = await open();
  if (opened === undefined) throw gone(path);
  try {
    for await (const member of readTarMembers(opened.handle, opened.sizeBytes, signal)) {
      if (visit(member) === 'stop') return;
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError)) throw mediaError(path, error);
    throw error.code === 'bundle/tar'
      ? bundleError('bundle/tar', `${quotedPath(path)}: ${error.message}`, { cause: error })
      : error;
  } finally {
    await opened.handle.close();
  }
}

async function readMember(
  { path, open }: Tar,
  name: BundleFile,
  member: TarMember | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  if (member === undefined) {
    throw bundleError(
      'bundle/absent',
      `${quotedPath(path)} has no member ${name}: the bundle is incomplete, copy it again`,
    );
  }
  if (member.sizeBytes > maxBytes) {
    throw bundleError(
      'bundle/digest',
      `${name} in ${quotedPath(path)} has ${member.sizeBytes} bytes, and ${maxBytes} are allowed`,
    );
  }
  const chunks: Buffer[] = [];
  const end = member.offset + member.sizeBytes;
  for await (const chunk of streamOpened(path, open, member.offset, signal, end)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
