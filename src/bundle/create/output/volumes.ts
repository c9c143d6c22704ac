import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, hexOf } from '../../../domain/model/digest.ts';
import { syncFile, syncFolderIfPossible } from '../../../platform/files/durable-file.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';

/**
 * Files occupy whole clusters. FAT, exFAT and ext4 use at least 4 KiB on sticks of usual sizes.
 */
const CLUSTER_BYTES = 4096;
const BLOBS = join('blobs', 'sha256');

/**
 * The files that each volume holds besides its share of the blobs. Names are relative to
 * the bundle.
 */
interface SpreadOptions {
  readonly volumeBytes: number;
  /**
   * Names below `blobs/sha256` in the order in which the node needs them; every other file is
   * copied to each volume.
   */
  readonly spread: readonly string[];
}

/**
 * Spreads the bundle at `tree` over `<directory>/1`, `<directory>/2` …, each of at most
 * `volumeBytes` with every file rounded up to 4 KiB. A blob goes whole into the first volume that
 * has room for it. `tree` is gone afterwards.
 *
 * @returns the number of volumes.
 * @throws AppError `bundle/option` (`reject`) when a blob, or the files that each volume needs, are
 *   too large; system errors as they are.
 */
export async function spreadOverVolumes(
  tree: string,
  directory: string,
  { volumeBytes, spread }: SpreadOptions,
  signal: AbortSignal,
): Promise<number> {
  const wanted = new Set(spread);
  const others = (await readdir(join(tree, BLOBS))).sort().filter((name) => !wanted.has(name));
  const common = ['bundle.dsse.json', 'oci-layout', 'index.json', ...others.map((name) => join(BLOBS, name))];
  const sizes: Sized[] = [];
  for (const name of wanted) sizes.push({ name, sizeBytes: await sumOf(tree, [join(BLOBS, name)]) });
  const volumes = assignToVolumes(sizes, await sumOf(tree, common), volumeBytes);
  for (const [at, names] of volumes.entries()) {
    signal.throwIfAborted();
    await fillVolume(tree, join(directory, String(at + 1)), common, names);
  }
  await rm(tree, { recursive: true });
  return volumes.length;
}

/**
 * How many bytes volumes need beyond one copy of everything: the common files exist once per
 * volume, and once more while the volumes are made.
 *
 * @param documents manifests and configs, which each volume holds.
 * @throws AppError `bundle/option` (`reject`) when a blob, or the files that each volume needs, are
 *   too large.
 */
export function repeatedBytes(
  layers: readonly { readonly digest: Digest; readonly size: number }[],
  documents: readonly Uint8Array[],
  volumeBytes: number,
): number {
  const commonBytes = documents.reduce((sum, { length }) => sum + inClusters(length), 0);
  const sizes = layers.map(({ digest, size }) => ({ name: hexOf(digest), sizeBytes: inClusters(size) }));
  return assignToVolumes(sizes, commonBytes, volumeBytes).length * commonBytes;
}

interface Sized {
  readonly name: string;
  /** In whole clusters. */
  readonly sizeBytes: number;
}

/** Names for each volume: every one goes into the first that has room for it. */
function assignToVolumes(sizes: readonly Sized[], commonBytes: number, volumeBytes: number): string[][] {
  if (commonBytes > volumeBytes) {
    throw bundleError(
      'bundle/option',
      `--volume-size ${formatBytes(volumeBytes)} is too small: each volume needs ${formatBytes(commonBytes)} for the files that all volumes hold`,
    );
  }
  const volumes = [{ names: [] as string[], usedBytes: commonBytes }];
  for (const { name, sizeBytes } of sizes) {
    checkFits(name, sizeBytes, commonBytes, volumeBytes);
    let volume = volumes.find(({ usedBytes }) => usedBytes + sizeBytes <= volumeBytes);
    if (volume === undefined) {
      volume = { names: [], usedBytes: commonBytes };
      volumes.push(volume);
    }
    volume.names.push(name);
    volume.usedBytes += sizeBytes;
  }
  return volumes.map(({ names }) => names);
}

/** @throws AppError `bundle/option` (`reject`) that names a blob that fits into no volume. */
function checkFits(name: string, sizeBytes: number, commonBytes: number, volumeBytes: number): void {
  if (commonBytes + sizeBytes <= volumeBytes) return;
  throw bundleError(
    'bundle/option',
    `--volume-size ${formatBytes(volumeBytes)} is too small: blob ${name} has ${formatBytes(sizeBytes)}, is never split, and each volume needs ${formatBytes(commonBytes)} for manifests`,
  );
}

function inClusters(sizeBytes: number): number {
  return Math.ceil(sizeBytes / CLUSTER_BYTES) * CLUSTER_BYTES;
}

async function fillVolume(tree: string, volume: string, common: readonly string[], names: readonly string[]) {
  await mkdir(join(volume, BLOBS), { recursive: true });
  for (const name of common) {
    await copyFile(join(tree, name), join(volume, name));
    await syncFile(join(volume, name));
  }
  for (const name of names) await rename(join(tree, BLOBS, name), join(volume, BLOBS, name));
  for (const folder of [BLOBS, 'blobs', '.']) await syncFolderIfPossible(join(volume, folder));
}

async function sumOf(tree: string, names: readonly string[]): Promise<number> {
  let sum = 0;
  for (const name of names) sum += inClusters((await stat(join(tree, name))).size);
  return sum;
}
