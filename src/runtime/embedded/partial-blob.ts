import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import { digestFromHex, shortDigest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { syncFolder } from '../../platform/files/durable-file.ts';
import { pullError, writeError } from '../cri/runtime-error.ts';

/** An incomplete blob: its bytes so far in a file, and their running hash. */
export interface PartialBlob {
  sizeBytes(): number;
  /**
   * Writes chunks that begin at `startByte` of the blob. Bytes that are already there are skipped.
   *
   * @throws AppError `runtime/digest-mismatch` when there are more bytes than in the descriptor;
   *   `runtime/no-space`; errors of `chunks`
   */
  append(startByte: number, chunks: AsyncIterable<Buffer>): Promise<void>;
  /**
   * Checks the digest and renames the file to `path`. @throws AppError `runtime/digest-mismatch`;
   * then the file is removed
   */
  finish(path: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the file at `path`, which may have the start of the blob from an earlier attempt or
 * process.
 */
export async function openPartialBlob(path: string, blob: Descriptor): Promise<PartialBlob> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'a');
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk as Buffer);
    sizeBytes += (chunk as Buffer).length;
  }
  const discard = async (why: string) => {
    await rm(path, { force: true });
    return pullError('runtime/digest-mismatch', `Blob ${shortDigest(blob.digest)} is not what it should be: ${why}`);
  };
  return {
    sizeBytes: () => sizeBytes,
    close: () => file.close(),
    append: async (startByte, chunks) => {
      let passOver = sizeBytes - startByte;
      for await (const chunk of chunks) {
        const fresh = chunk.subarray(Math.min(passOver, chunk.length));
        passOver -= chunk.length - fresh.length;
        if (sizeBytes + fresh.length > blob.size) throw await discard(`more than ${blob.size} bytes came`);
        await file.appendFile(fresh).catch(asWriteError(path));
        hash.update(fresh);
        sizeBytes += fresh.length;
      }
    },
    finish: async (finalPath) => {
      const actual = digestFromHex(hash.copy().digest('hex'));
      if (actual !== blob.digest) throw await discard(`its bytes have the digest ${shortDigest(actual)}`);
      await file.sync().catch(asWriteError(path));
      await mkdir(dirname(finalPath), { recursive: true });
      await rename(path, finalPath);
      await syncFolder(dirname(finalPath)).catch(asWriteError(finalPath));
    },
  };
}

function asWriteError(path: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof AppError ? error : writeError(path, error);
  };
}
