import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { bundleError } from '../../bundle/bundle-error.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { PARTITION_OFFSET } from '../image/image-layout.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { claimStick, isGone, type StickDevice, stickError } from './claim-stick.ts';

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

/** One write(2) may write less than all, as at the end of a device. */
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

/** Read past the cache by dd(1): O_DIRECT needs memory at aligned addresses. */
async function hashOnStick({ device, imageBytes, onProgress }: StickWrite, signal: AbortSignal): Promise<string> {
  const onBytes = countBytes('verify', imageBytes, onProgress);
  const args = [`if=${device}`, 'bs=4M', `count=${imageBytes}`, 'iflag=direct,fullblock,count_bytes', 'status=none'];
  const child = spawn('dd', args, { stdio: ['ignore', 'pipe', 'pipe'], signal, env: { ...process.env, LC_ALL: 'C' } });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk.toString('utf8')}`.slice(-4096);
  });
  const hash = createHash('sha256');
  child.stdout.on('data', (chunk: Buffer) => {
    hash.update(chunk);
    onBytes(chunk.length);
  });
  const ended = await new Promise<string | undefined>((resolve) => {
    child.on('error', (error) => {
      if (!signal.aborted) resolve(reasonOf(error));
    });
    child.on('close', (code) => resolve(code === 0 ? undefined : errors.trim() || `dd ended with exit code ${code}`));
  });
  signal.throwIfAborted();
  if (ended !== undefined) throw stickError(`${device} can't be read back: ${ended}; use another stick`);
  return hash.digest('hex');
}
