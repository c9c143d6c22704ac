import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseEnvelope } from '../../bundle/format/dsse.ts';
import { parsePayload } from '../../bundle/format/schema.ts';
import type { Trust } from '../../bundle/keys/trust.ts';
import type { BundleFile, BundleReader } from '../../bundle/read/bundle-reader.ts';
import { streamFile } from '../../bundle/read/open-file.ts';
import { judgeBundle, readUntrusted } from '../../bundle/verify/judge-bundle.ts';
import { verifyEnvelope } from '../../bundle/verify/verify-envelope.ts';
import type { ContentPointer, Payload, VerifiedBundle } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { isFaulty } from '../../domain/model/medium.ts';
import type { Reference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import { digestOf } from '../../platform/digest.ts';
import { writeTreeFile } from '../../platform/files/durable-file.ts';
import { checkSpace, resumeDirectory } from '../output/staging.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { Answered, bodyOf, type RegistryAccess } from '../registry/registry-client.ts';
import { jsonBytes } from '../write-bundle.ts';
import { Link, type LinkedBundle } from './linked-bundle.ts';

interface PullOptions {
  /** With a tag or a digest. */
  readonly reference: Reference;
  readonly access: RegistryAccess;
  /** Undefined: signatures are not checked. */
  readonly trust: Trust | undefined;
  /** Default `NAME-VERSION-ARCH` in the current folder. */
  readonly out?: string | undefined;
  /** Bundles on this machine. What they have is not pulled. */
  readonly reuse: readonly BundleReader[];
  readonly onProgress: ProgressListener;
}

export interface PulledBundle {
  readonly bundle: VerifiedBundle;
  readonly path: string;
  /** Of the index that the tag names. */
  readonly digest: Digest;
  readonly pulledBlobs: number;
  readonly pulledBytes: number;
  readonly blobs: number;
}

const PULLS_AT_ONCE = 3;
const SYNCED_BYTES = 1024 * 1024;

/**
 * Makes the folder of a bundle, all or nothing; an earlier pull to the same folder that ended early
 * is continued from its bytes. The envelope is judged before anything else is pulled, and each blob
 * by its digest.
 *
 * @throws AppError `bundle/registry`; `bundle/absent` when the registry lacks blobs; as
 *   `judgeBundle()` and `resumeDirectory()`
 */
export async function pullBundle(options: PullOptions, signal: AbortSignal): Promise<PulledBundle> {
  const { reference, access, trust, reuse, onProgress } = options;
  const link = new Link(reference, access, 'pull');
  const linked = await link.find(reference, signal);
  const envelope = await documentOf(link, linked.envelope, signal);
  const payload = await judgedPayload(envelope, trust);
  const path = options.out ?? `${payload.name}-${payload.version}-${payload.arch}`;
  return resumeDirectory(
    path,
    async (staging) => {
      const folder = join(staging, 'blobs', 'sha256');
      await mkdir(folder, { recursive: true });
      await takeIndex(reuse, payload.index, folder, signal);
      const pulled = new PulledBlobs(link, linked, { folder, reuse });
      const reader = new LinkedReader(pulled, link.name, { envelope, payload });
      const { bundle, blobs, missing } = await (trust === undefined
        ? readUntrusted(reader, signal)
        : judgeBundle(reader, trust, signal));
      const faulty = missing.filter(isFaulty);
      if (faulty[0] !== undefined) {
        const which = `${faulty.length} of ${blobs.size} blobs, for example ${faulty[0].digest}`;
        throw bundleError('bundle/absent', `${link.name} lacks ${which}: push the bundle again`);
      }
      const left = new Set(missing.map(({ digest }) => digest));
      const wanted = [...blobs].filter(([digest]) => !left.has(digest));
      const totalBytes = wanted.reduce((sum, [digest, size]) => sum + (pulled.has(digest) ? 0 : size), 0);
      await checkSpace(staging, totalBytes - (await pulled.partBytes()));
      const onBytes = countBytes('pull', totalBytes, onProgress);
      await forEachLimited(wanted, PULLS_AT_ONCE, signal, async ([digest, size], stopped) => {
        if (!pulled.has(digest)) await pulled.take({ digest, size }, stopped, onBytes);
      });
      await finish(staging, { envelope, payload, digests: blobs });
      const { fetchedBlobs: pulledBlobs, fetchedBytes: pulledBytes } = pulled;
      return { bundle, path, digest: linked.digest, pulledBlobs, pulledBytes, blobs: blobs.size };
    },
    signal,
  );
}

/** It is no blob there. A file that is here already is checked before it counts. */
async function takeIndex(
  reuse: readonly BundleReader[],
  { digest, size }: ContentPointer,
  folder: string,
  signal: AbortSignal,
) {
  for (const reader of reuse) {
    const bytes = await reader.readFile('index.json', size, signal).catch(() => undefined);
    if (bytes !== undefined && digestOf(bytes) === digest) await writeFile(join(folder, hexOf(digest)), bytes);
  }
}

/** INVARIANT: signatures first, as in `judgeBundle()`. */
async function judgedPayload(bytes: Buffer, trust: Trust | undefined): Promise<Payload> {
  const envelope = parseEnvelope(bytes);
  return parsePayload(trust === undefined ? envelope.payload : (await verifyEnvelope(envelope, trust)).payload);
}

async function documentOf(link: Link, { digest, size }: ContentPointer, signal: AbortSignal): Promise<Buffer> {
  const ask = { path: `${link.client.base}blobs/${digest}`, follows: true };
  const { status, body } = await link.known(link.client.document(ask, signal), signal);
  if (status !== 200) throw link.refusal(status);
  if (body.length !== size || digestOf(body) !== digest) throw link.fault(`it sends other bytes for ${digest}`);
  return body;
}

/** What earlier pulls of another bundle left goes. */
async function finish(
  staging: string,
  {
    envelope,
    payload,
    digests,
  }: { readonly envelope: Buffer; readonly payload: Payload; readonly digests: ReadonlyMap<Digest, number> },
): Promise<void> {
  const folder = join(staging, 'blobs', 'sha256');
  await rename(join(folder, hexOf(payload.index.digest)), join(staging, 'index.json'));
  const kept = new Set([...digests.keys(), payload.contents.digest].map(hexOf));
  for (const name of await readdir(folder)) if (!kept.has(name)) await rm(join(folder, name));
  for (const name of ['oci-layout', 'bundle.dsse.json']) await rm(join(staging, name), { force: true });
  await writeTreeFile(join(staging, 'oci-layout'), jsonBytes({ imageLayoutVersion: '1.0.0' }));
  await writeTreeFile(join(staging, 'bundle.dsse.json'), envelope);
}

/** Reads a bundle from a registry; what is read is kept. */
class LinkedReader implements BundleReader {
  constructor(
    private readonly blobs: PulledBlobs,
    readonly path: string,
    private readonly known: { readonly envelope: Buffer; readonly payload: Payload },
  ) {}

  hold<T>(run: () => Promise<T>): Promise<T> {
    return run();
  }

  async readFile(name: BundleFile, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
    const { envelope, payload } = this.known;
    if (name === 'bundle.dsse.json') return envelope;
    if (name !== 'index.json' || payload.index.size > maxBytes) {
      throw bundleError('bundle/absent', `${this.path} has no ${name} of at most ${maxBytes} bytes`);
    }
    await this.blobs.take(payload.index, signal);
    const chunks: Buffer[] = [];
    for await (const chunk of this.blobs.read(payload.index.digest, 0, signal)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return this.blobs.sizeOf(digest, signal);
  }

  async *read(digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const size = (await this.sizeOf(digest, signal)) ?? 0;
    await this.blobs.take({ digest, size }, signal);
    yield* this.blobs.read(digest, startByte, signal);
  }
}

interface Places {
  readonly folder: string;
  readonly reuse: readonly BundleReader[];
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;

/** Blobs in a folder, each complete and of its digest when it was taken. */
class PulledBlobs {
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

  /** Of files that an earlier pull left. */
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

  /** Once for all callers. @throws AppError `bundle/registry` */
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

  /** What can't be read there is pulled. */
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
      // What was here before may be what is wrong.
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
    const { client } = this.link;
    const from = file.position;
    const headers = from > 0 ? { range: `bytes=${from}-` } : {};
    const response = await client.open({ path: `${client.base}blobs/${digest}`, headers, follows: true }, signal);
    try {
      const { statusCode: status } = response;
      const isRest = status === 206 && response.headers['content-range']?.startsWith(`bytes ${from}-`) === true;
      if (status !== 200 && !isRest) throw new Answered(`it answers ${status} to ${digest}`);
      if (!isRest) await file.restart();
      for await (const chunk of bodyOf(response)) {
        if (file.position + chunk.length > file.sizeBytes) throw new Answered(`it sends too many bytes of ${digest}`);
        await write(chunk);
      }
      if (file.position < file.sizeBytes) throw new Answered(`it sends too few bytes of ${digest}`);
    } finally {
      if (!response.complete) response.destroy();
    }
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

  /** What an earlier pull left. */
  async readAgain(signal: AbortSignal): Promise<void> {
    const { size } = await this.file.stat();
    if (size > this.sizeBytes) return this.restart();
    const buffer = Buffer.allocUnsafe(SYNCED_BYTES);
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
