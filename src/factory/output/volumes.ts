import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { readTarMembers, TAR_BLOCK_BYTES } from '../../bundle/format/tar-header.ts';
import { limits } from '../../bundle/limits.ts';
import { openRegularFile, streamFile } from '../../bundle/read/open-file.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { fillNewFile } from '../../platform/files/durable-file.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { countBytes, type ProgressListener } from '../progress.ts';

/** Files occupy whole clusters. FAT, exFAT and ext4 use at least 4 KiB on sticks of usual sizes. */
const CLUSTER_BYTES = 4096;

export interface VolumeRules {
  /** Every file counts as whole clusters. */
  readonly volumeBytes: number;
  /** Default 4096. */
  readonly clusterBytes?: number;
  /** The requested size, for errors. Default: `volumeBytes`. */
  readonly givenBytes?: number;
}

const BLOBS = join('blobs', 'sha256');

/**
 * Each blob goes whole into the first of `<directory>/1`, `<directory>/2` … with room. `tree` is
 * gone afterwards.
 *
 * @param spread names below `blobs/sha256` in the order of need; other files go to each volume
 * @returns the number of volumes
 * @throws AppError `bundle/option` when a blob or the common files are too large; system errors
 */
export async function spreadOverVolumes(
  tree: string,
  directory: string,
  { spread, ...rules }: VolumeRules & { readonly spread: readonly string[] },
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
 * Common files exist once a volume, and once more while volumes are made. `documents`: manifests
 * and configs, which each volume holds.
 *
 * @throws AppError `bundle/option` when a blob or the common files are too large
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
  readonly sizeBytes: number;
}

function assignToVolumes(sizes: readonly Sized[], commonBytes: number, rules: VolumeRules): string[][] {
  const { volumeBytes } = rules;
  if (commonBytes > volumeBytes) {
    const message = `--volume-size ${formatBytes(rules.givenBytes ?? volumeBytes)} is too small: each volume needs ${formatBytes(commonBytes)} for the files that all volumes hold`;
    throw bundleError('bundle/option', message);
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

function checkFits(name: string, sizeBytes: number, commonBytes: number, rules: VolumeRules): void {
  const { volumeBytes, givenBytes = volumeBytes } = rules;
  if (commonBytes + sizeBytes <= volumeBytes) return;
  const message = `--volume-size ${formatBytes(givenBytes)} is too small: blob ${name} has ${formatBytes(sizeBytes)}, is never split, and each volume needs ${formatBytes(commonBytes)} for manifests`;
  throw bundleError('bundle/option', message);
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

const ENVELOPE = 'bundle.dsse.json';
/** Eleven octal digits of a header. */
const MAX_NUMBER = limits.tarMemberBytes;

/**
 * POSIX ustar: the envelope, then blobs by digest. Each file is removed once archived, so only the
 * largest is on disk twice. The same tree gives the same bytes.
 *
 * @throws system errors of the target; AppError `media/read`, `media/gone` for the tree
 */
export async function packDirectory(
  directory: string,
  to: string,
  { created, onProgress }: { readonly created: string; readonly onProgress: ProgressListener },
  signal: AbortSignal,
) {
  const blobs = join('blobs', 'sha256');
  const names = (await readdir(join(directory, blobs))).sort().map((name) => join(blobs, name));
  const members = [ENVELOPE, 'oci-layout', 'index.json', 'blobs/', `${blobs}/`, ...names];
  const onBytes = countBytes('pack', await sizeOf(directory, members), onProgress);
  await fillNewFile(to, async (file) => {
    for (const name of members) {
      signal.throwIfAborted();
      if (name.endsWith('/')) {
        await file.writeFile(header({ name, sizeBytes: 0, created }));
        continue;
      }
      const path = join(directory, name);
      const { size } = await stat(path);
      await file.writeFile(header({ name, sizeBytes: size, created }));
      for await (const chunk of streamFile(path, 0, signal, size)) {
        await file.writeFile(chunk);
        onBytes(chunk.length);
      }
      await file.writeFile(padding(size));
      await rm(path);
    }
    await file.writeFile(Buffer.alloc(2 * TAR_BLOCK_BYTES));
  });
}

async function sizeOf(directory: string, members: readonly string[]): Promise<number> {
  let sum = 0;
  for (const name of members) if (!name.endsWith('/')) sum += (await stat(join(directory, name))).size;
  return sum;
}

/**
 * Every byte behind the envelope is unchanged.
 *
 * @throws AppError `bundle/tar`, `media/read`, `media/gone` for `from`; system errors of the target
 */
export async function copyTarWithEnvelope(
  from: string,
  to: string,
  envelope: { readonly bytes: Uint8Array; readonly created: string },
  signal: AbortSignal,
) {
  const restAt = await endOfFirstMember(from, signal);
  await fillNewFile(to, async (file) => {
    const { bytes, created } = envelope;
    await file.writeFile(header({ name: ENVELOPE, sizeBytes: bytes.length, created }));
    await file.writeFile(bytes);
    await file.writeFile(padding(bytes.length));
    for await (const chunk of streamFile(from, restAt, signal)) await file.writeFile(chunk);
  });
}

async function endOfFirstMember(path: string, signal: AbortSignal): Promise<number> {
  const opened = await openRegularFile(path);
  try {
    if (opened !== undefined) {
      for await (const { offset, sizeBytes } of readTarMembers(opened.handle, opened.sizeBytes, signal)) {
        return offset + sizeBytes + padding(sizeBytes).length;
      }
    }
  } finally {
    await opened?.handle.close();
  }
  throw bundleError('bundle/tar', `${path} has no member`);
}

function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((TAR_BLOCK_BYTES - (sizeBytes % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES);
}

/** A name that ends in `/` is a directory; owner 0:0. */
function header(of: { readonly name: string; readonly sizeBytes: number; readonly created: string }): Buffer {
  if (Buffer.byteLength(of.name) > 100 || of.sizeBytes > MAX_NUMBER) {
    throw new RangeError(`${of.name} with ${of.sizeBytes} bytes does not fit into a ustar header`);
  }
  const isDirectory = of.name.endsWith('/');
  const seconds = Math.min(Math.max(0, Math.floor(Date.parse(of.created) / 1000)), MAX_NUMBER);
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  block.write(of.name, 0);
  block.write(`${octal(isDirectory ? 0o755 : 0o644, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0`, 100, 'latin1');
  block.write(`${octal(of.sizeBytes, 11)}\0${octal(seconds, 11)}\0`, 124, 'latin1');
  // POSIX: the checksum is computed with the checksum field filled with spaces.
  block.write('        ', 148);
  block.write(isDirectory ? '5' : '0', 156);
  block.write('ustar\x0000', 257, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 6)}\0 `, 148, 'latin1');
  return block;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}
