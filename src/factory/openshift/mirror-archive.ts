import type { Stats } from 'node:fs';
import { copyFile, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { isBegun, type StoredFile, unpackArchive } from '../archive/unpack-archive.ts';
import { layoutBlobPath, sourceError } from '../images/layout-source.ts';
import type { ExtractedMedium } from './openshift-iso.ts';

/** oc-mirror 2 writes these. Each part is a separate archive, and no file is cut. */
const PART = /^mirror_[0-9]{6}\.tar$/;
/** A storage without what only a running registry needs, `release.env`, signatures. */
const WANTED = /(?:^|\/)(?:docker\/registry\/v2\/(?!.*\/_(?:layers|uploads)\/)|release\.env$|signature)/;
const HEAD_BYTES = 512;

export function isMirrorPart(path: string): boolean {
  return PART.test(basename(path));
}

/**
 * The archives of the medium at `path`: a tar, all parts beside it, or those in a folder. It is
 * empty for another medium.
 * @throws AppError `bundle/source` when a part is missing
 */
export async function mirrorParts(path: string, found: Stats): Promise<readonly string[]> {
  if (found.isFile() && !isBegun(await headOf(path))) return [];
  if (found.isFile() && !isMirrorPart(path)) return [path];
  if (!found.isFile() && !found.isDirectory()) return [];
  const folder = found.isDirectory() ? path : dirname(path);
  const entries = await readdir(folder).catch((cause: unknown) => {
    throw sourceError(folder, cause);
  });
  const names = entries.filter(isMirrorPart).sort();
  const expected = names.map((_, at) => `mirror_${String(at + 1).padStart(6, '0')}.tar`);
  const missing = expected.find((name, at) => names[at] !== name);
  if (missing !== undefined) throw bundleError('bundle/source', `${join(folder, missing)} is missing: it is a part`);
  return names.map((name) => join(folder, name));
}

async function headOf(path: string): Promise<Buffer> {
  const handle = await open(path).catch((cause: unknown) => {
    throw sourceError(path, cause);
  });
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** @throws AppError `bundle/source`, `bundle/no-space`, as `unpackArchive()` */
export async function unpackMirror(
  archives: readonly string[],
  to: string,
  signal: AbortSignal,
): Promise<ExtractedMedium> {
  for (const path of archives) {
    const blobs = join(to, '.part');
    const { files } = await unpackArchive(path, blobs, () => undefined, signal);
    await placeFiles(files, blobs, to).catch((cause: unknown) => {
      throw sourceError(`archive ${path}`, cause);
    });
    await rm(blobs, { recursive: true });
  }
  return { folder: to, label: '' };
}

/** Names are within the archive. Some filesystems have no links. */
async function placeFiles(files: ReadonlyMap<string, StoredFile>, blobs: string, to: string): Promise<void> {
  const placed = new Map<Digest, string>();
  for (const [name, { digest }] of files) {
    if (!WANTED.test(name)) continue;
    const path = join(to, name);
    await mkdir(dirname(path), { recursive: true });
    const same = placed.get(digest);
    await (same === undefined ? rename(layoutBlobPath(blobs, digest), path) : copyFile(same, path));
    placed.set(digest, path);
  }
}
