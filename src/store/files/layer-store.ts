import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type Allocate, newBuffer } from '../../platform/files/chunk-buffer.ts';
import type { Log } from '../../platform/log.ts';
import type { LayerStore, LayerWriter } from '../../ports/blobs.ts';
import { fileWriteError } from './write-error.ts';

/** What {@link createLayerStore} needs. */
export interface LayerStoreDeps {
  readonly folder: string;
  /**
   * Share of the store's filesystem that stays free, in percent: a copy must never take the room
   * that the node needs.
   */
  readonly minFreePercent: number;
  readonly log: Log;
}

const CHUNK_BYTES = 1024 * 1024;
const PARTIAL = '.part';

/** What was written of a layer so far; the hash goes on with it, so that nothing is read again. */
interface Partial {
  readonly hash: Hash;
  lengthBytes: number;
  /** What lies before was left by an earlier run, maybe in a power cut. */
  readonly ownFromByte: number;
}

/**
 * Layers on the node's own disk: `<folder>/<hex>`, and `<hex>.part` while one is being written. A
 * layer is renamed into place once its digest is right and its bytes are on the disk, so that what
 * has its name is whole; it is checked again whenever it is read from beginning to end.
 *
 * INVARIANT: one writer for each layer. Whatever goes wrong ends the writer and never whoever feeds
 * it.
 */
export function createLayerStore({ folder, minFreePercent, log }: LayerStoreDeps): LayerStore {
  const pathOf = (digest: Digest) => join(folder, hexOf(digest));
  const partials = new Map<Digest, Partial>();
  /** What is being written; a promise where that is about to end. */
  const writing = new Map<Digest, Promise<void> | undefined>();
  const listeners = new Set<() => void>();
  let wanted: ReadonlySet<Digest> = new Set();
  let listed: Promise<Map<Digest, number>> | undefined;
  let isFull = false;

  const held = (): Promise<Map<Digest, number>> => {
    listed ??= listFolder(folder).catch((error: unknown) => {
      listed = undefined;
      throw storeError(folder, 'listed', error);
    });
    return listed;
  };
  const notify = (): void => {
    for (const listener of [...listeners]) listener();
  };
  const forget = async (digest: Digest): Promise<void> => {
    (await held()).delete(digest);
    partials.delete(digest);
    for (const path of [pathOf(digest), pathOf(digest) + PARTIAL]) await rm(path, { force: true });
  };
  /** Keeps what is whole now, unless it has another digest. */
  const finish = async (digest: Digest, isRight: boolean, { lengthBytes }: Partial, handle: FileHandle) => {
    partials.delete(digest);
    if (!isRight) {
      await rm(pathOf(digest) + PARTIAL, { force: true });
      return;
    }
    await handle.sync();
    await rename(pathOf(digest) + PARTIAL, pathOf(digest));
    await syncFolder(folder);
    (await held()).set(digest, lengthBytes);
    notify();
  };

  /** Opens the file to write on at the end of what is there already. */
  const resume = async (digest: Digest): Promise<{ handle: FileHandle; partial: Partial }> => {
    const path = pathOf(digest) + PARTIAL;
    await mkdir(folder, { recursive: true });
    const handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const partial = partials.get(digest) ?? (await hashOf(handle));
      partials.set(digest, partial);
      return { handle, partial };
    } catch (error) {
      await handle.close();
      throw error;
    }
  };
  const tellFull = (error: unknown): void => {
    if (!isFull) log.warn({ err: error }, `Layers are not kept on this node for now: ${reasonOf(error)}`);
    isFull = true;
  };
  const hasRoomFor = async (sizeBytes: number): Promise<boolean> => {
    await mkdir(folder, { recursive: true });
    const { bavail, blocks, bsize } = await statfs(folder);
    const fits = bavail * bsize - sizeBytes >= (blocks * bsize * minFreePercent) / 100;
    if (fits) isFull = false;
    else tellFull(new Error(`${folder} has no room for another ${sizeBytes} bytes beside the share that stays free`));
    return fits;
  };

  const writer = (digest: Digest, sizeBytes: number, fromByte: number, { handle, partial }: Opened): LayerWriter => {
    const startByte = fromByte < partial.ownFromByte ? fromByte : partial.lengthBytes;
    let position = startByte;
    let isDamaged = false;
    let ended: Promise<void> | undefined;
    const end = (): Promise<void> => {
      if (ended === undefined) {
        ended = handle
          .close()
          .catch(() => undefined)
          .finally(() => writing.delete(digest));
        writing.set(digest, ended);
      }
      return ended;
    };
    const take = async (chunk: Buffer): Promise<void> => {
      const skip = partial.lengthBytes - position;
      position += chunk.length;
      if (skip >= chunk.length) return;
      const fresh = chunk.subarray(skip);
      const isWhole = partial.lengthBytes + fresh.length >= sizeBytes;
      // Before anything is waited for: whoever sends the last bytes on knows by then what they are.
      // What can't be written is given up, hash and all.
      partial.hash.update(fresh);
      if (isWhole) isDamaged = !hasDigest(partial, digest);
      await writeAll(handle, fresh, partial.lengthBytes);
      partial.lengthBytes += fresh.length;
      if (isWhole) {
        await finish(digest, !isDamaged, partial, handle);
        await end();
      }
    };
    // What was half written can't be gone on with: its end is not what was hashed.
    const giveUp = async (error: unknown): Promise<void> => {
      tellFull(error);
      await end();
      await forget(digest).catch(() => undefined);
    };
    return {
      startByte,
      isDamaged: () => isDamaged,
      async *replay(signal, allocate = newBuffer) {
        try {
          yield* readFrom(pathOf(digest) + PARTIAL, fromByte, startByte, signal, allocate);
        } catch (error) {
          signal.throwIfAborted();
          await giveUp(error);
          throw storeError(pathOf(digest) + PARTIAL, 'read', error);
        }
      },
      write: async (chunk) => {
        if (ended !== undefined) return;
        try {
          await take(chunk);
        } catch (error) {
          await giveUp(error);
        }
      },
      close: end,
    };
  };

  return {
    list: async () => new Set((await held()).keys()),
    sizeOf: async (digest) => (await held()).get(digest),
    isBeside: async (path) => {
      try {
        const [own, other] = await Promise.all([deviceOf(folder), stat(path)]);
        return own === other.dev;
      } catch {
        return false; // a runtime may name a path that this process can't see
      }
    },
    want: (digests) => {
      wanted = digests;
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    begin: async (digest, sizeBytes, startByte) => {
      // Whoever broke off and goes on at once comes before the file is closed.
      await writing.get(digest);
      if (!wanted.has(digest) || writing.has(digest)) return undefined;
      writing.set(digest, undefined);
      try {
        if (!(await held()).has(digest) && (await hasRoomFor(sizeBytes - (partials.get(digest)?.lengthBytes ?? 0)))) {
          const opened = await resume(digest);
          const { lengthBytes } = opened.partial;
          const from = startByte ?? lengthBytes;
          if (lengthBytes < sizeBytes && lengthBytes >= from) return writer(digest, sizeBytes, from, opened);
          // Whole already: it only was not renamed yet. Else there is a gap, and the layer is
          // copied as a whole later.
          if (lengthBytes >= sizeBytes) {
            await finish(digest, hasDigest(opened.partial, digest), opened.partial, opened.handle);
          }
          await opened.handle.close();
        }
      } catch (error) {
        tellFull(error);
      }
      writing.delete(digest);
      return undefined;
    },
    async *read(digest, startByte, signal, allocate = newBuffer) {
      const sizeBytes = (await held()).get(digest);
      if (sizeBytes === undefined) throw absent(pathOf(digest));
      const hash = startByte === 0 ? createHash('sha256') : undefined;
      try {
        for await (const chunk of readFrom(pathOf(digest), startByte, sizeBytes, signal, allocate)) {
          hash?.update(chunk);
          yield chunk;
        }
      } catch (error) {
        signal.throwIfAborted();
        await forget(digest).catch(() => undefined);
        throw storeError(pathOf(digest), 'read', error);
      }
      if (hash === undefined || digestFromHex(hash.digest('hex')) === digest) return;
      await forget(digest);
      throw storeError(pathOf(digest), 'used', new Error('its bytes have changed; it was removed'));
    },
    retain: async (digests) => {
      const gone = [...(await held()).keys()].filter((digest) => !digests.has(digest));
      for (const digest of gone) await forget(digest);
      for (const digest of await listPartials(folder)) {
        if (!digests.has(digest) && !writing.has(digest)) await forget(digest);
      }
      return gone.length;
    },
  };
}

/** Ends the hash. */
function hasDigest({ hash }: Partial, digest: Digest): boolean {
  return digestFromHex(hash.digest('hex')) === digest;
}

/** The device of what is at `path`, or of the folder in which it would be made. */
async function deviceOf(path: string): Promise<number> {
  try {
    return (await stat(path)).dev;
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    return deviceOf(dirname(path));
  }
}

interface Opened {
  readonly handle: FileHandle;
  readonly partial: Partial;
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

async function listPartials(folder: string): Promise<Digest[]> {
  const names = (await namesIn(folder)).filter((name) => /^[0-9a-f]{64}\.part$/.test(name));
  return names.map((name) => digestFromHex(name.slice(0, -PARTIAL.length)));
}

/**
 * Whole layers and their sizes. What an earlier run left half-written stays, to be gone on with.
 */
async function listFolder(folder: string): Promise<Map<Digest, number>> {
  const found = new Map<Digest, number>();
  for (const name of (await namesIn(folder)).filter((one) => /^[0-9a-f]{64}$/.test(one))) {
    const stats = await stat(join(folder, name));
    if (stats.isFile()) found.set(digestFromHex(name), stats.size);
  }
  return found;
}

async function hashOf(handle: FileHandle): Promise<Partial> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, at);
    if (bytesRead === 0) return { hash, lengthBytes: at, ownFromByte: at };
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}

async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

async function* readFrom(path: string, startByte: number, sizeBytes: number, signal: AbortSignal, allocate: Allocate) {
  const handle = await open(path, 'r');
  try {
    for (let at = startByte; at < sizeBytes; ) {
      signal.throwIfAborted();
      const into = allocate(Math.min(CHUNK_BYTES, sizeBytes - at));
      const { bytesRead, buffer } = await handle.read(into, 0, into.length, at);
      if (bytesRead === 0) throw new Error(`it ends at byte ${at} of ${sizeBytes}`);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function absent(path: string): AppError {
  return new AppError({ code: 'media/gone', message: `${path} is not there`, disposition: 'wait' });
}

function storeError(path: string, how: string, error: unknown): AppError {
  return fileWriteError(path, error, 'store/blob', `${path} can't be ${how}: ${reasonOf(error)}`);
}
