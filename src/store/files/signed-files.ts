import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BundleId, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { makeFolder, syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import { blobError } from './write-error.ts';

export interface SignedFiles {
  /** It may be absent. */
  folderOf(bundleId: BundleId): string;
  /** Reads the disk only the first time. @throws `store/blob` (`retry`) */
  list(): Promise<ReadonlySet<BundleId>>;
  /**
   * All files appear at once, on the disk. @throws AppError `store/no-space`, `store/blob`
   * (`retry`)
   */
  put(bundleId: BundleId, files: ReadonlyMap<string, Buffer>): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(bundleId: BundleId): Promise<void>;
}

const HEX = /^[0-9a-f]{64}$/;

export function createSignedFiles(folder: string): SignedFiles {
  let listed: Set<BundleId> | undefined;
  const folderOf = (bundleId: BundleId) => join(folder, hexOf(bundleId));
  const list = async (): Promise<Set<BundleId>> => {
    listed ??= await listFolders(folder);
    return listed;
  };
  const inTurn = oneAtATime();
  const put = async (bundleId: BundleId, files: ReadonlyMap<string, Buffer>): Promise<void> => {
    const known = await list();
    const [path, staged] = [folderOf(bundleId), join(folder, `.${hexOf(bundleId)}.new`)];
    try {
      await rm(staged, { recursive: true, force: true });
      await makeFolder(folder);
      await mkdir(staged);
      for (const [name, bytes] of files) await writeNewFile(join(staged, name), bytes);
      await syncFolder(staged);
      await rm(path, { recursive: true, force: true });
      await rename(staged, path);
      await syncFolder(folder);
      known.add(bundleId);
    } catch (error) {
      await rm(staged, { recursive: true, force: true }).catch(() => undefined);
      throw blobError(path, 'written', error);
    }
  };
  const remove = async (bundleId: BundleId): Promise<void> => {
    const path = folderOf(bundleId);
    try {
      await rm(path, { recursive: true, force: true });
      await syncFolder(folder).catch(ignoreAbsent);
      (await list()).delete(bundleId);
    } catch (error) {
      throw blobError(path, 'removed', error);
    }
  };
  // Two media with one bundle would write the same files at once.
  return {
    folderOf,
    list: () => inTurn(NEVER_ABORTED, list),
    put: (bundleId, files) => inTurn(NEVER_ABORTED, () => put(bundleId, files)),
    remove: (bundleId) => inTurn(NEVER_ABORTED, () => remove(bundleId)),
  };
}

async function listFolders(folder: string): Promise<Set<BundleId>> {
  try {
    const names = await readdir(folder);
    for (const name of names.filter((one) => one.startsWith('.'))) {
      await rm(join(folder, name), { recursive: true, force: true });
    }
    return new Set(names.filter((name) => HEX.test(name)).map(digestFromHex));
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return new Set();
    throw blobError(folder, 'listed', error);
  }
}

function ignoreAbsent(error: unknown): void {
  if (systemCodeOf(error) !== 'ENOENT') throw error;
}
