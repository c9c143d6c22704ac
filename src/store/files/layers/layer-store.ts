import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm, stat, statfs } from 'node:fs/promises';
import type { Digest } from '../../../domain/model/digest.ts';
import type { Fault } from '../../../domain/model/reason.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';
import { untilAborted } from '../../../platform/async/abort.ts';
import { makeFolder, syncFolder } from '../../../platform/files/durable-file.ts';
import { type Allocate, newBuffer } from '../../../platform/files/file-access.ts';
import type { Log } from '../../../platform/log.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../../platform/subscription.ts';
import type { LayerStore, LayerWriter } from '../../../ports/blobs.ts';
import { absentBlob, fileWriteError } from '../write-error.ts';
import {
  CHANGED,
  deviceOf,
  hasDigest,
  hashOf,
  layerPath,
  listFolder,
  listPartials,
  lostFrom,
  type Partial,
  partialPath,
  readChecked,
  readFrom,
  writeAll,
} from './layer-files.ts';

interface LayerOptions {
  readonly folder: string;
  /** Must stay free for the node, in percent of the filesystem. */
  readonly minFreePercent: () => number;
  readonly log: Log;
}

interface OpenedLayer {
  readonly handle: FileHandle;
  readonly partial: Partial;
}

/**
 * Layers on the node's own disk: `<folder>/<hex>`, and `<hex>.part` while one is being written. A
 * layer gets its final name when its digest is right and its bytes are on the disk. Each complete
 * read checks the digest again.
 * INVARIANT: one writer for each layer. An error ends the writer but never its caller.
 */
export class FileLayers implements LayerStore {
  private readonly folder: string;
  private readonly partials = new Map<Digest, Partial>();
  /** The value is a promise while the file is being closed. */
  private readonly writing = new Map<Digest, Promise<void> | undefined>();
  private readonly listeners: Listeners = new Set();
  private wanted: ReadonlySet<Digest> = new Set();
  /** Sizes in bytes. Undefined until the folder is listed. */
  private listed: Promise<Map<Digest, number>> | undefined;
  private problem: Fault | undefined;

  constructor(private readonly options: LayerOptions) {
    this.folder = options.folder;
  }

  async list(signal: AbortSignal): Promise<ReadonlySet<Digest>> {
    const held = await untilAborted(this.held(), signal);
    // A folder that can't be read now says nothing.
    const lost = await untilAborted(
      lostFrom(this.folder, [...held.keys()]).catch(() => []),
      signal,
    );
    for (const digest of lost) held.delete(digest);
    if (lost.length > 0) notifyAll(this.listeners);
    return new Set(held.keys());
  }

  async parts(signal: AbortSignal): Promise<ReadonlyMap<Digest, number>> {
    try {
      return await untilAborted(listPartials(this.folder), signal);
    } catch (error) {
      signal.throwIfAborted();
      throw storeError(this.folder, 'listed', error);
    }
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return (await untilAborted(this.held(), signal)).get(digest);
  }

  async isBeside(path: string, signal: AbortSignal): Promise<boolean> {
    try {
      const [ofStore, other] = await untilAborted(Promise.all([deviceOf(this.folder), stat(path)]), signal);
      return ofStore === other.dev;
    } catch {
      signal.throwIfAborted();
      return false; // the path of a runtime may be invisible to this process
    }
  }

  want(digests: ReadonlySet<Digest>): void {
    this.wanted = digests;
  }

  onChange(listener: () => void): Unsubscribe {
    return listen(this.listeners, listener);
  }

  async begin(
    digest: Digest,
    sizeBytes: number,
    startByte: number | undefined,
    signal: AbortSignal,
  ): Promise<LayerWriter | undefined> {
    const { partials, writing } = this;
    // A caller that aborts and resumes at once may come before the file is closed.
    await untilAborted(Promise.resolve(writing.get(digest)), signal);
    if (!this.wanted.has(digest) || writing.has(digest)) return undefined;
    writing.set(digest, undefined);
    try {
      const isHeld = (await this.held()).has(digest);
      if (!isHeld && (await this.hasRoomFor(sizeBytes - (partials.get(digest)?.lengthBytes ?? 0)))) {
        const opened = await this.resume(digest, signal);
        const { lengthBytes } = opened.partial;
        const fromByte = startByte ?? lengthBytes;
        if (lengthBytes < sizeBytes && lengthBytes >= fromByte) {
          return new FileLayerWriter(this, opened, digest, sizeBytes, fromByte);
        }
        // It is complete and was not renamed, or there is a gap and the layer is copied later.
        if (lengthBytes >= sizeBytes) await this.finish(digest, hasDigest(opened.partial, digest), opened);
        await opened.handle.close();
      }
    } catch (error) {
      if (!signal.aborted) this.logFull(error);
    }
    writing.delete(digest);
    signal.throwIfAborted();
    return undefined;
  }

  async *read(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    allocate: Allocate = newBuffer,
  ): AsyncGenerator<Buffer> {
    const path = layerPath(this.folder, digest);
    const sizeBytes = (await this.held()).get(digest);
    if (sizeBytes === undefined) throw absentBlob(path);
    try {
      yield* readChecked({ path, digest, sizeBytes, startByte }, signal, allocate);
    } catch (error) {
      signal.throwIfAborted();
      await this.forget(digest).catch(() => undefined);
      if (error !== CHANGED) throw storeError(path, 'read', error);
      // Its first bytes are with the caller already: no other copy can continue it.
      const message = `${path} can't be used: ${reasonOf(error)}`;
      throw new AppError({ code: 'store/blob', message, disposition: 'reject', cause: error });
    }
  }

  async retain(digests: ReadonlySet<Digest>, signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    const gone = [...(await this.held()).keys()].filter((digest) => !digests.has(digest));
    for (const digest of gone) {
      signal.throwIfAborted();
      await this.forget(digest);
    }
    for (const digest of (await listPartials(this.folder)).keys()) {
      signal.throwIfAborted();
      if (!digests.has(digest) && !this.writing.has(digest)) await this.forget(digest);
    }
    return gone.length;
  }

  partialPath(digest: Digest): string {
    return partialPath(this.folder, digest);
  }

  async finish(digest: Digest, isRight: boolean, { handle, partial }: OpenedLayer): Promise<void> {
    const path = this.partialPath(digest);
    this.partials.delete(digest);
    if (!isRight) {
      await rm(path, { force: true });
      return;
    }
    await handle.sync();
    await rename(path, layerPath(this.folder, digest));
    await syncFolder(this.folder);
    (await this.held()).set(digest, partial.lengthBytes);
    notifyAll(this.listeners);
  }

  /** The layer can be written again when `closed` resolves. */
  closing(digest: Digest, closed: Promise<void>): Promise<void> {
    const ended = closed.finally(() => this.writing.delete(digest));
    this.writing.set(digest, ended);
    return ended;
  }

  async forget(digest: Digest): Promise<void> {
    (await this.held()).delete(digest);
    this.partials.delete(digest);
    for (const path of [layerPath(this.folder, digest), this.partialPath(digest)]) await rm(path, { force: true });
  }

  trouble(): Fault | undefined {
    return this.problem;
  }

  /** Once until there is space again. */
  logFull(error: unknown): void {
    const message = reasonOf(error);
    if (this.problem === undefined) {
      this.options.log.warn({ err: error }, `Layers are not kept on this node for now: ${message}`);
    }
    const code = error instanceof AppError ? error.code : 'store/blob';
    this.problem = { code, message };
  }

  /** @throws AppError `store/blob` (`retry`) */
  private held(): Promise<Map<Digest, number>> {
    this.listed ??= listFolder(this.folder).catch((error: unknown) => {
      this.listed = undefined;
      throw storeError(this.folder, 'listed', error);
    });
    return this.listed;
  }

  private async resume(digest: Digest, signal: AbortSignal): Promise<OpenedLayer> {
    await makeFolder(this.folder);
    const handle = await open(this.partialPath(digest), constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const partial = this.partials.get(digest) ?? (await hashOf(handle, signal));
      this.partials.set(digest, partial);
      return { handle, partial };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Logs when there is no room. */
  private async hasRoomFor(sizeBytes: number): Promise<boolean> {
    const { folder } = this.options;
    const percent = this.options.minFreePercent();
    await makeFolder(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    const fits = bavail * bsize - sizeBytes >= (blocks * bsize * percent) / 100;
    if (fits) this.problem = undefined;
    else {
      const message = `${folder} has no room for another ${formatBytes(sizeBytes)}: ${formatBytes(bavail * bsize)} are free, and ${percent} % of the disk must stay free by preload.min_free_percent. Make room there; it continues automatically`;
      this.logFull(new AppError({ code: 'store/no-space', message, disposition: 'retry' }));
    }
    return fits;
  }
}

class FileLayerWriter implements LayerWriter {
  readonly startByte: number;
  private position: number;
  private isBad = false;
  /** Undefined while the file is open. */
  private ended: Promise<void> | undefined;

  constructor(
    private readonly layers: FileLayers,
    private readonly opened: OpenedLayer,
    private readonly digest: Digest,
    private readonly sizeBytes: number,
    private readonly fromByte: number,
  ) {
    const { lengthBytes, ownFromByte } = opened.partial;
    // Bytes of an earlier process are not replayed.
    this.startByte = fromByte < ownFromByte ? fromByte : lengthBytes;
    this.position = this.startByte;
  }

  isDamaged(): boolean {
    return this.isBad;
  }

  async *replay(signal: AbortSignal, allocate: Allocate = newBuffer): AsyncGenerator<Buffer> {
    const path = this.layers.partialPath(this.digest);
    try {
      yield* readFrom(path, this.fromByte, this.startByte, signal, allocate);
    } catch (error) {
      signal.throwIfAborted();
      await this.giveUp(error);
      throw storeError(path, 'read', error);
    }
  }

  async write(chunk: Buffer, signal: AbortSignal): Promise<void> {
    if (this.ended !== undefined) return;
    if (signal.aborted) return this.close();
    try {
      await this.append(chunk);
    } catch (error) {
      await this.giveUp(error);
    }
  }

  close(): Promise<void> {
    this.ended ??= this.layers.closing(
      this.digest,
      this.opened.handle.close().catch(() => undefined),
    );
    return this.ended;
  }

  private async append(chunk: Buffer): Promise<void> {
    const { partial, handle } = this.opened;
    const skip = partial.lengthBytes - this.position;
    this.position += chunk.length;
    if (skip >= chunk.length) return;
    const fresh = chunk.subarray(skip);
    const isWhole = partial.lengthBytes + fresh.length >= this.sizeBytes;
    // Before the first await, so that the caller knows the result before it forwards the last
    // bytes. If the write fails, the hash is dropped with the file.
    partial.hash.update(fresh);
    if (isWhole) this.isBad = !hasDigest(partial, this.digest);
    await writeAll(handle, fresh, partial.lengthBytes);
    partial.lengthBytes += fresh.length;
    if (!isWhole) return;
    await this.layers.finish(this.digest, !this.isBad, this.opened);
    await this.close();
  }

  /** After a partial write the end of the file does not match the hash. */
  private async giveUp(error: unknown): Promise<void> {
    this.layers.logFull(error);
    await this.close();
    await this.layers.forget(this.digest).catch(() => undefined);
  }
}

/** `how`: a participle. */
function storeError(path: string, how: string, error: unknown): AppError {
  return fileWriteError(path, error, 'store/blob', `${path} can't be ${how}: ${reasonOf(error)}`);
}
