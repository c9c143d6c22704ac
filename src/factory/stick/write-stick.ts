import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { constants, type FileHandle, mkdir, open, readdir, stat, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { isBundleTar } from '../../bundle/read/open-bundle.ts';
import type { Payload } from '../../domain/model/bundle.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { PARTITION_OFFSET } from '../image/image-layout.ts';
import type { Medium } from '../image/make-image.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { runProgram } from '../run-program.ts';

const MiB = 1024 * 1024;
const CHUNK_BYTES = 4 * MiB;
/** Bytes between syncs, so that the progress is that of the stick and not that of the cache. */
const SYNC_BYTES = 32 * MiB;

export interface StickWrite extends StickDevice {
  /** Its size is a whole number of MiB. */
  readonly image: string;
  readonly imageBytes: number;
  readonly deviceBytes: number;
  readonly onProgress: ProgressListener;
}

/**
 * Writes an image to a stick, reads it back past the cache and compares.
 *
 * INVARIANTS: The device is claimed from the first write to the comparison, so that nothing mounts
 * it. The first MiB with the partition table is zero until everything else is written, and again
 * after a fault or an abort: an incomplete stick has no filesystem.
 *
 * @throws AppError `bundle/stick` when the device can't be used or does not keep what was written
 */
export async function writeStick(write: StickWrite, signal: AbortSignal): Promise<void> {
  const { device } = write;
  const { target, close } = await claimStick(write);
  try {
    await clearStart(target);
    const expected = await copyImage(write, target, signal);
    const found = await hashOnStick(write, signal);
    if (found === expected) return;
    throw stickError(`${device} does not keep what is written to it: it is worn out or a fake; use another stick`);
  } catch (error) {
    // A stick that takes no more writes has reported so.
    await clearStart(target).catch(() => undefined);
    signal.throwIfAborted();
    // A write to a stick that is gone may fail for any reason, also for lack of space.
    if (await isGone(write)) {
      throw stickError(`${device} was pulled out: it is incomplete now, so plug it in and write it again`, error);
    }
    if (error instanceof AppError || systemCodeOf(error) === undefined) throw error;
    throw stickError(`${device} can't be written: ${reasonOf(error)}; it is incomplete now, so write it again`, error);
  } finally {
    await close();
  }
}

async function clearStart(target: FileHandle): Promise<void> {
  await writeExactly(target, Buffer.alloc(PARTITION_OFFSET), 0);
  await target.sync();
}

/** One write(2) may write only a part, for example at the end of a device. */
async function writeExactly(target: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await target.write(bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw stickError(`the stick takes no more than ${at + done} bytes: use another one`);
    done += bytesWritten;
  }
}

async function copyImage(
  { image, imageBytes, deviceBytes, onProgress }: StickWrite,
  target: FileHandle,
  signal: AbortSignal,
): Promise<string> {
  const source = await open(image, 'r');
  try {
    const onBytes = countBytes('write', imageBytes, onProgress);
    const hash = createHash('sha256');
    const first = await readExactly(source, 0, PARTITION_OFFSET, image);
    hash.update(first);
    let unsynced = 0;
    for (let at = PARTITION_OFFSET; at < imageBytes; at += CHUNK_BYTES) {
      signal.throwIfAborted();
      const chunk = await readExactly(source, at, Math.min(CHUNK_BYTES, imageBytes - at), image);
      hash.update(chunk);
      await writeExactly(target, chunk, at);
      unsynced += chunk.length;
      if (unsynced >= SYNC_BYTES) {
        await target.datasync();
        unsynced = 0;
      }
      onBytes(chunk.length);
    }
    await clearEnd(target, imageBytes, deviceBytes);
    await target.sync();
    await writeExactly(target, first, 0);
    await target.sync();
    onBytes(first.length);
    return hash.digest('hex');
  } finally {
    await source.close();
  }
}

/** Copies of partition tables and signs of RAID at the end of the stick would mislead readers. */
async function clearEnd(target: FileHandle, imageBytes: number, deviceBytes: number): Promise<void> {
  const size = Math.min(MiB, deviceBytes - imageBytes);
  if (size > 0) await writeExactly(target, Buffer.alloc(size), deviceBytes - size);
}

async function readExactly(file: FileHandle, at: number, size: number, path: string): Promise<Buffer> {
  const buffer = Buffer.alloc(size);
  const { bytesRead } = await file.read(buffer, 0, size, at);
  if (bytesRead === size) return buffer;
  throw bundleError('bundle/source', `${path} was changed while it was read: make the image again`);
}

/** dd(1) reads past the cache: O_DIRECT needs memory at aligned addresses. */
async function hashOnStick({ device, imageBytes, onProgress }: StickWrite, signal: AbortSignal): Promise<string> {
  const onBytes = countBytes('verify', imageBytes, onProgress);
  const args = [`if=${device}`, 'bs=4M', `count=${imageBytes}`, 'iflag=direct,fullblock,count_bytes', 'status=none'];
  const hash = createHash('sha256');
  const onOutput = (chunk: Buffer) => {
    hash.update(chunk);
    onBytes(chunk.length);
  };
  const ended = await runProgram('dd', args, onOutput, signal, { env: { ...process.env, LC_ALL: 'C' } });
  if (ended.kind === 'error' || ended.code !== 0) {
    const why =
      ended.kind === 'error' ? reasonOf(ended.error) : ended.errors.trim() || `dd ended with exit code ${ended.code}`;
    throw stickError(`${device} can't be read back: ${why}; use another stick`);
  }
  return hash.digest('hex');
}

interface StickDevice {
  readonly device: string;
  readonly number: string;
}

/**
 * When a descriptor for writing is closed, udev has the kernel read the partition table and inform
 * everybody. The kernel refuses that while the device is claimed, so a descriptor for reading holds
 * the claim and is closed first.
 *
 * @throws AppError `bundle/stick` when it can't be opened, is in use or was swapped
 */
export async function claimStick(stick: StickDevice): Promise<{ readonly target: FileHandle; close(): Promise<void> }> {
  const claim = await openAs(constants.O_RDONLY | constants.O_EXCL, stick);
  const target = await openAs(constants.O_RDWR, stick).catch(async (error: unknown) => {
    await claim.close();
    throw error;
  });
  return {
    target,
    close: async () => {
      await claim.close();
      await target.close();
    },
  };
}

async function openAs(flags: number, { device, number }: StickDevice): Promise<FileHandle> {
  const opened = await open(device, flags).catch((cause: unknown) => {
    const hints: Readonly<Record<string, string>> = {
      EBUSY: 'another program uses it: unmount its filesystems and close disk tools',
      EACCES: 'only root may write to it: run the command with sudo',
      EPERM: 'only root may write to it: run the command with sudo',
      EROFS: 'it is read-only',
      ENOMEDIUM: 'it has no medium',
    };
    throw stickError(`${device} can't be opened: ${hints[systemCodeOf(cause) ?? ''] ?? reasonOf(cause)}`, cause);
  });
  if (numberOf(await opened.stat()) === number) return opened;
  await opened.close();
  throw stickError(`${device} is another device than a moment ago: look at it again`);
}

/** Pulled out: its node in /dev is gone or another device's; a reader stays and has no medium. */
async function isGone({ device, number }: StickDevice): Promise<boolean> {
  try {
    const still = await open(device, constants.O_RDONLY);
    try {
      return numberOf(await still.stat()) !== number;
    } finally {
      await still.close();
    }
  } catch (error) {
    return ['ENOENT', 'ENXIO', 'ENODEV', 'ENOMEDIUM'].includes(systemCodeOf(error) ?? '');
  }
}

function stickError(message: string, cause?: unknown): AppError {
  return bundleError('bundle/stick', message, { cause });
}

/** `major:minor` as in makedev(3). */
function numberOf({ rdev }: Stats): string {
  return `${((rdev >> 8) & 0xfff) >>> 0}:${((rdev & 0xff) | ((rdev >> 12) & 0xfff00)) >>> 0}`;
}

export async function imageSizeOf(path: string): Promise<number> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const sector = Buffer.alloc(512);
      await file.read(sector, 0, sector.length, 0);
      const isImage = size > PARTITION_OFFSET && size % MiB === 0 && sector.readUInt16LE(510) === 0xaa55;
      if (isImage) return size;
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw bundleError('bundle/source', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
  const message = `${path} is not an image of a stick: make one with bundle create --filesystem, or name a bundle`;
  throw bundleError('bundle/source', message);
}

/** A new folder with a link to this bundle alone. @throws AppError `bundle/source` */
export async function mediumOf(bundle: string, { name, version, arch }: Payload, root: string): Promise<Medium> {
  const folder = `stickpin/${name}-${version}-${arch}`;
  await mkdir(join(root, 'stickpin'), { recursive: true });
  if (isBundleTar(bundle)) {
    const path = `${folder}.stickpin.tar`;
    await symlink(resolve(bundle), join(root, path));
    return { root, folders: ['stickpin'], files: [await fileOf(root, path)] };
  }
  await symlink(resolve(bundle), join(root, folder));
  const blobs = `${folder}/blobs/sha256`;
  const files = [];
  for (const file of (await readdir(join(root, folder))).sort()) {
    if (DOCUMENTS.has(file)) files.push(await fileOf(root, `${folder}/${file}`));
  }
  for (const blob of (await readdir(join(root, blobs))).sort()) {
    if (/^[0-9a-f]{64}$/.test(blob)) files.push(await fileOf(root, `${blobs}/${blob}`));
  }
  return { root, folders: ['stickpin', folder, `${folder}/blobs`, blobs], files };
}

const DOCUMENTS = new Set(['bundle.dsse.json', 'oci-layout', 'index.json', 'contents.json']);

async function fileOf(root: string, path: string): Promise<Medium['files'][number]> {
  return { path, sizeBytes: (await stat(join(root, path))).size };
}
