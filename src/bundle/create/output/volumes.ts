import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, hexOf } from '../../../domain/model/digest.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';

/**
 * Files occupy whole clusters. FAT, exFAT and ext4 use at least 4 KiB on sticks of usual sizes.
 */
const CLUSTER_BYTES = 4096;

/** How large volumes may be. */
export interface VolumeRules {
  /** Of each volume, with every file rounded up to whole clusters. */
  readonly volumeBytes: number;
  /** Default 4096. */
  readonly clusterBytes?: number;
  /** The size that was asked for, for errors. Default: `volumeBytes`. */
  readonly givenBytes?: number;
}

const BLOBS = join('blobs', 'sha256');

/**
 * The files that each volume holds besides its share of the blobs. Names are relative to
 * the bundle.
 */
interface SpreadOptions extends VolumeRules {
  /**
   * Names below `blobs/sha256` in the order in which the node needs them; every other file is
   * copied to each volume.
   */
  readonly spread: readonly string[];
}

/**
 * Spreads the bundle at `tree` over `<directory>/1`, `<directory>/2` …, each of at most
 * `volumeBytes` with every file rounded up to whole clusters. A blob goes whole into the first
 * volume that has room for it. `tree` is gone afterwards.
 *
 * @returns the number of volumes.
 * @throws AppError `bundle/option` (`reject`) when a blob, or the files that each volume needs, are
 *   too large; system errors as they are.
 */
export async function spreadOverVolumes(
  tree: string,
  directory: string,
  { spread, ...rules }: SpreadOptions,
  signal: AbortSignal,
): Promise<number> {
  const wanted = new Set(spread);
  const others = (await readdir(join(tree, BLOBS))).sort().filter((name) => !wanted.has(name));
  const common = ['bundle.dsse.json', 'oci-layout', 'index.json', ...others.map((name) => join(BLOBS, name))];
  const sizes: Sized[] = [];
  for (const name of wanted) sizes.push({ name, sizeBytes: await sumOf(tree, [join(BLOBS, name)], rules) });
  const volumes = assignToVolumes(sizes, await sumOf(tree, common, rules), rules);
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
  rules: VolumeRules,
): number {
  const commonBytes = documents.reduce((sum, { length }) => sum + inClusters(length, rules), 0);
  const sizes = layers.map(({ digest, size }) => ({ name: hexOf(digest), sizeBytes: inClusters(size, rules) }));
  return assignToVolumes(sizes, commonBytes, rules).length * commonBytes;
}

interface Sized {
  readonly name: string;
  /** In whole clusters. */
  readonly sizeBytes: number;
}

/** Names for each volume: every one goes into the first that has room for it. */
function assignToVolumes(sizes: readonly Sized[], commonBytes: number, rules: VolumeRules): string[][] {
  const { volumeBytes } = rules;
  if (commonBytes > volumeBytes) {
    throw bundleError(
      'bundle/option',
      `--volume-size ${formatBytes(rules.givenBytes ?? volumeBytes)} is too small: each volume needs ${formatBytes(commonBytes)} for the files that all volumes hold`,
    );
  }
  const volumes = [{ names: [] as string[], usedBytes: commonBytes }];
  for (const { name, sizeBytes } of sizes) {
    checkFits(name, sizeBytes, commonBytes, rules);
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
function checkFits(name: string, sizeBytes: number, commonBytes: number, rules: VolumeRules): void {
  const { volumeBytes, givenBytes = volumeBytes } = rules;
  if (commonBytes + sizeBytes <= volumeBytes) return;
  throw bundleError(
    'bundle/option',
    `--volume-size ${formatBytes(givenBytes)} is too small: blob ${name} has ${formatBytes(sizeBytes)}, is never split, and each volume needs ${formatBytes(commonBytes)} for manifests`,
  );
}

function inClusters(sizeBytes: number, { clusterBytes = CLUSTER_BYTES }: VolumeRules): number {
  return Math.ceil(sizeBytes / clusterBytes) * clusterBytes;
}

async function fillVolume(tree: string, volume: string, common: readonly string[], names: readonly string[]) {
  await mkdir(join(volume, BLOBS), { recursive: true });
  for (const name of common) await copyFile(join(tree, name), join(volume, name));
  for (const name of names) await rename(join(tree, BLOBS, name), join(volume, BLOBS, name));
}

async function sumOf(tree: string, names: readonly string[], rules: VolumeRules): Promise<number> {
  let sum = 0;
  for (const name of names) sum += inClusters((await stat(join(tree, name))).size, rules);
  return sum;
}
