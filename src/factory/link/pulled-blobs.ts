import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { streamFile } from '../../bundle/read/open-file.ts';
import type { Link, LinkedBundle } from '../../distribution/linked-bundle.ts';
import { Answered } from '../../distribution/registry-client.ts';
import type { ContentPointer } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';

interface Places {
  readonly folder: string;
  readonly reuse: readonly BundleReader[];
}

const CHUNK_BYTES = 1024 * 1024;
const SYNCED_BYTES = CHUNK_BYTES;
const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;

/** Blobs in a folder, each complete and of its digest when it was taken. */
export class PulledBlobs {
  fetchedBlobs = 0;
  fetchedBytes = 0;
  private readonly sizes = new Map<Digest, number>();
  private readonly taken = new Map<Digest, Promise<void>>();

  constructor(
    private readonly link: Link,
    private readonly linked: LinkedBundle,
    private readonly places: Places,
  ) {}

  has(digest: Digest): boolean {
    return this.taken.has(digest);
  }

  /** The bytes of files from an earlier pull. */
  async partBytes(): Promise<number> {
    const { folder } = this.places;
    const names = (await readdir(folder)).filter((name) => !this.taken.has(digestFromHex(name)));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    const known = this.sizes.get(digest) ?? (await this.findSize(digest, signal));
    if (known !== undefined) this.sizes.set(digest, known);
    return known;
  }

  private async findSize(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    const listed = this.linked.manifests.get(digest);
    if (listed !== undefined) return listed;
    for (const reader of this.places.reuse) {
      const sizeBytes = await reader.sizeOf(digest, signal);
      if (sizeBytes !== undefined) return sizeBytes;
    }
    return this.link.sizeOf(digest, 'blobs', signal);
  }

  read(digest: Digest, startByte: number, signal: AbortSignal): AsyncIterable<Buffer> {
    return streamFile(join(this.places.folder, hexOf(digest)), startByte, signal);
  }

  /** Pulls once for all callers. @throws AppError `bundle/registry` */
  take(of: ContentPointer, signal: AbortSignal, onBytes: (bytes: number) => void = () => undefined): Promise<void> {
    const known = this.taken.get(of.digest);
    if (known !== undefined) return known;
    const taking = this.fill(of, signal, onBytes).catch((error: unknown) => {
      this.taken.delete(of.digest);
      throw error;
    });
    this.taken.set(of.digest, taking);
    return taking;
  }

  private async fill(of: ContentPointer, signal: AbortSignal, onBytes: (bytes: number) => void): Promise<void> {
    const file = new PulledFile(of, await open(join(this.places.folder, hexOf(of.digest)), FLAGS, 0o644), onBytes);
    try {
      await file.readAgain(signal);
      for (const reader of this.places.reuse) if (!file.isRight) await this.copy(reader, file, signal);
      if (!file.isRight) await this.fetch(of, file, signal);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /** An unreadable file is pulled. */
  private async copy(reader: BundleReader, file: PulledFile, signal: AbortSignal): Promise<void> {
    try {
      if ((await reader.sizeOf(file.digest, signal)) !== file.sizeBytes) return;
      await file.restart();
      for await (const chunk of reader.read(file.digest, 0, signal)) await file.write(chunk);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
    }
  }

  private async fetch({ digest }: ContentPointer, file: PulledFile, signal: AbortSignal): Promise<void> {
    const { client } = this.link;
    this.fetchedBlobs += 1;
    const count = async (chunk: Buffer) => {
      this.fetchedBytes += chunk.length;
      await file.write(chunk);
    };
    if (this.linked.manifests.has(digest)) {
      await file.restart();
      await count(await this.link.manifest(digest, signal));
    } else {
      const isWhole = file.position === file.sizeBytes;
      if (isWhole) await file.restart();
      const fetchRest = () => this.fetchRest(digest, file, count, signal);
      const pull = () =>
        this.link.known(
          client.again(signal, fetchRest, () => file.position),
          signal,
        );
      const before = file.position;
      await pull();
      // The bytes from an earlier pull may be wrong.
      if (!file.isRight && before > 0) {
        await file.restart();
        await pull();
      }
    }
    if (!file.isRight) throw this.link.fault(`it sends other bytes for ${digest}: push the bundle again`);
  }

  private async fetchRest(
    digest: Digest,
    file: PulledFile,
    write: (chunk: Buffer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const from = file.position;
    const onStart = async (startByte: number) => {
      if (startByte < from) await file.restart();
    };
    for await (const chunk of this.link.read(digest, from, signal, onStart)) {
      if (file.position + chunk.length > file.sizeBytes) throw new Answered(`it sends too many bytes of ${digest}`);
      await write(chunk);
    }
    if (file.position < file.sizeBytes) throw new Answered(`it sends too few bytes of ${digest}`);
  }
}

/** A file that is written from its beginning, with the hash of what is in it. */
class PulledFile {
  position = 0;
  private hash: Hash = createHash('sha256');
  readonly digest: Digest;
  readonly sizeBytes: number;

  constructor(
    { digest, size }: ContentPointer,
    private readonly file: FileHandle,
    private readonly onBytes: (bytes: number) => void,
  ) {
    this.digest = digest;
    this.sizeBytes = size;
  }

  get isRight(): boolean {
    return this.position === this.sizeBytes && digestFromHex(this.hash.copy().digest('hex')) === this.digest;
  }

  /** Reads the bytes from an earlier pull. */
  async readAgain(signal: AbortSignal): Promise<void> {
    const { size } = await this.file.stat();
    if (size > this.sizeBytes) return this.restart();
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    while (this.position < size) {
      signal.throwIfAborted();
      const { bytesRead } = await this.file.read(
        buffer,
        0,
        Math.min(buffer.length, size - this.position),
        this.position,
      );
      if (bytesRead === 0) break;
      this.count(buffer.subarray(0, bytesRead));
    }
  }

  async restart(): Promise<void> {
    await this.file.truncate(0);
    this.onBytes(-this.position);
    this.position = 0;
    this.hash = createHash('sha256');
  }

  async write(chunk: Buffer): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      const { bytesWritten } = await this.file.write(chunk, at, chunk.length - at, this.position + at);
      at += bytesWritten;
    }
    this.count(chunk);
  }

  private count(chunk: Buffer): void {
    this.hash.update(chunk);
    this.position += chunk.length;
    this.onBytes(chunk.length);
  }

  /** Small ones come to the disk with their folder. */
  async sync(): Promise<void> {
    if (this.sizeBytes >= SYNCED_BYTES) await this.file.sync();
  }

  close(): Promise<void> {
    return this.file.close();
  }
}
