import { bundleError } from '../../bundle/bundle-error.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import type { OfferedBundle } from '../../domain/fleet/node-status.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { PeerState } from '../../domain/model/medium.ts';
import { mediaError, type ReadableBundle } from '../../media/media-provider.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted, withEither } from '../../platform/async/abort.ts';
import { Cached } from '../../platform/async/cached.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { Observable, type Unsubscribe } from '../../platform/subscription.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { type OffersClient, wasCut } from '../wire/client.ts';
import { type Busy, busyOf, OFFERED_FILES, wireLimits } from '../wire/documents.ts';

export type PeerClient = Pick<OffersClient, 'file' | 'blobs' | 'tryBlob'> & BlobSource;

interface PeerAccess {
  readonly name: string;
  readonly client: PeerClient;
  readonly turn: PeerTurn;
  /** Documents that this node has: they are not requested again. */
  readonly ownBlobs: BlobSource;
  readonly clock: Clock;
}

/** How long a busy peer is retried before anything of a bundle is known. */
const PATIENCE_MS = 5 * 60_000;

/** Longest name and version that are shown. Nobody has verified them. */
const SHOWN_LENGTH = 80;

/** A bundle that a peer offers. */
export class PeerBundle implements ReadableBundle {
  readonly kind = 'bundle';
  readonly path: string;
  readonly reader: BundleReader;
  readonly blobs: BlobSource;
  private readonly bundleId: BundleId;
  private readonly sizes: Cached<ReadonlyMap<Digest, number>>;

  constructor(
    private readonly access: PeerAccess,
    { bundleId, name, version }: OfferedBundle,
  ) {
    this.bundleId = bundleId;
    this.path = `${clip(oneLine(`${name}@${version}`), SHOWN_LENGTH)} ${bundleId}`;
    this.sizes = new Cached((signal) =>
      this.whileBusy(signal, async () => (await access.client.blobs(bundleId, signal)) ?? new Map()),
    );
    const sizeOf: BlobSource['sizeOf'] = async (digest, signal) => (await this.sizes.get(signal)).get(digest);
    this.blobs = { sizeOf, read: (digest, startByte, signal) => this.readBlob(digest, startByte, signal) };
    this.reader = {
      path: `${this.path} on ${access.name}`,
      hold: (run) => run(),
      readFile: (file, maxBytes, signal) => this.readFile(file, maxBytes, signal),
      sizeOf,
      read: (digest, startByte, signal) => this.readDocument(digest, startByte, signal),
    };
  }

  private async readFile(file: string, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
    const { client, name } = this.access;
    const offered = OFFERED_FILES.find((one) => one === file);
    const bytes =
      offered && (await this.whileBusy(signal, () => client.file(this.bundleId, offered, signal, maxBytes)));
    if (bytes !== undefined) return bytes;
    throw bundleError('bundle/absent', `${name} has no ${file} of bundle ${this.bundleId}`);
  }

  /**
   * Runs a small request, and again while the peer is busy, which no peer should be for so little.
   * Its errors become those of media.
   */
  private async whileBusy<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const { name, clock } = this.access;
    const untilMs = clock.monotonic() + PATIENCE_MS;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        signal.throwIfAborted();
        const busy = busyOf(error);
        if (busy === undefined || clock.monotonic() + busy.retryMs > untilMs) throw mediaErrorOf(name, error);
        await clock.sleep(busy.retryMs, signal);
      }
    }
  }

  /**
   * As {@link readBlob}, and waits for its turn: nothing else can be done before the bundle is
   * judged.
   */
  private async *readDocument(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    let position = startByte;
    for (;;) {
      try {
        for await (const chunk of this.readBlob(digest, position, signal)) {
          position += chunk.length;
          yield chunk;
        }
        return;
      } catch (error) {
        const isBusy = error instanceof AppError && busyOf(error.cause) !== undefined;
        if (!isBusy) throw error;
        await this.access.turn.untilReady(signal);
      }
    }
  }

  /**
   * A document that this node has comes from its own disk. A peer that is busy or does not answer
   * is left out for a while, so that the caller goes on elsewhere. Never more is read than the size
   * that the peer lists: its answer may have no end.
   */
  private async *readBlob(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { name, ownBlobs } = this.access;
    if (startByte === 0 && (await ownBlobs.sizeOf(digest, signal)) !== undefined) {
      yield* ownBlobs.read(digest, startByte, signal);
      return;
    }
    const sizeBytes = (await this.sizes.get(signal)).get(digest);
    if (sizeBytes === undefined) throw goneFor(name, `it does not list ${digest}`);
    let position = startByte;
    let wasShort = false;
    while (position < sizeBytes) {
      let given = 0;
      try {
        for await (const chunk of this.readOnce(digest, position, sizeBytes - position, signal)) {
          given += chunk.length;
          yield chunk;
        }
        return;
      } catch (error) {
        signal.throwIfAborted();
        const isShort = given < wireLimits.progressBytes;
        if (!wasCut(error) || given === 0 || (isShort && wasShort)) throw this.failureOf(digest, error);
        // A peer cuts an answer when its read fails in the middle. The next request shows it.
        position += given;
        wasShort = isShort;
      }
    }
  }

  /** One answer of the peer, up to the end of the blob. */
  private async *readOnce(
    digest: Digest,
    startByte: number,
    leftBytes: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { client, turn } = this.access;
    let given = 0;
    for await (const chunk of client.read(digest, startByte, signal)) {
      const wanted = chunk.subarray(0, leftBytes - given);
      given += wanted.length;
      turn.givenBytes += wanted.length;
      // One that gives a few bytes and fails is left out for longer each time.
      if (given >= Math.min(wireLimits.progressBytes, leftBytes)) turn.worked();
      yield wanted;
      if (given >= leftBytes) return;
    }
    turn.worked();
  }

  /** A peer that can't give this blob may give others, so it is not left out. */
  private failureOf(digest: Digest, error: unknown): unknown {
    const { name, turn } = this.access;
    const busy = busyOf(error);
    if (busy !== undefined) turn.busy(busy, digest);
    else if (error instanceof AppError && error.code === 'offers/unreachable') turn.failed();
    else return mediaErrorOf(name, error);
    return goneFor(name, error);
  }
}

/** `media/read` for a peer that does not answer as it should; everything else stays as it is. */
function mediaErrorOf(name: string, error: unknown): unknown {
  if (!(error instanceof AppError) || !error.code.startsWith('offers/')) return error;
  return new AppError({
    code: 'media/read',
    message: error.code === 'offers/failed' ? reasonOf(error) : `${name} can't be read: ${reasonOf(error)}`,
    disposition: error.disposition === 'reject' ? 'reject' : 'retry',
    cause: error,
  });
}

function goneFor(name: string, cause: unknown): AppError {
  return mediaError('media/gone', `${name} gives nothing now: ${reasonOf(cause)}`, cause);
}

interface PeerTurnOptions {
  /** Requests one byte of a blob, to keep the place in the queue. Throws as the client does. */
  readonly tryBlob: (digest: Digest, signal: AbortSignal) => Promise<void>;
  readonly changed: () => void;
  /** Called for each failure. */
  readonly failed: () => void;
  readonly clock: Clock;
  /** A number from 0 to 1, so that many nodes don't come at the same moment. */
  readonly random: () => number;
  /** Those before. Default 0. */
  readonly failures?: number;
}

/** After failures without a success between them. */
const PAUSES = { firstMs: 1_000, longestMs: 30_000 };

const READY: PeerState = { isReady: true };

/** Whether a peer can be read, and its queue. */
export class PeerTurn {
  private readonly life = new AbortController();
  private readonly turned = new Observable();
  private current: PeerState = READY;
  private failures: number;
  /** The bytes of blobs that the peer gave. */
  givenBytes = 0;

  constructor(private readonly options: PeerTurnOptions) {
    this.failures = options.failures ?? 0;
  }

  state(): PeerState {
    return this.failures === 0 ? this.current : { ...this.current, hasFailed: true };
  }

  /** The peer is busy. This blob is requested again until the peer is not. */
  busy(busy: Busy, digest: Digest): void {
    if (this.current.isReady) void this.queueUp(busy, digest).catch(() => undefined); // only an abort throws
  }

  /** The peer did not answer. It counts as ready again after a pause that grows. */
  failed(): void {
    if (!this.current.isReady) return;
    void this.pause().catch(() => undefined); // only an abort throws
    this.options.failed();
  }

  worked(): void {
    this.failures = 0;
  }

  /** Resolves when the peer is ready; at once while it is. @throws whatever aborted `signal` */
  async untilReady(signal: AbortSignal): Promise<void> {
    if (this.current.isReady) return;
    let stop: Unsubscribe = () => undefined;
    const ready = new Promise<void>((resolve) => {
      stop = this.turned.onChange(resolve);
    });
    await withEither([signal, this.life.signal], (either) => untilAborted(ready, either)).finally(stop);
  }

  close(): void {
    this.life.abort();
  }

  private async queueUp(first: Busy, digest: Digest): Promise<void> {
    const { clock, random } = this.options;
    for (let busy: Busy | undefined = first; busy !== undefined; ) {
      const { queue, retryMs } = busy;
      this.move({ isReady: false, ...(queue !== undefined && { queue }) });
      // Not later than the peer names: it keeps the place only until then.
      await clock.sleep(retryMs * (0.7 + 0.3 * random()), this.life.signal);
      busy = await this.retry(digest);
    }
    this.move(READY);
  }

  /** Undefined when it is no longer busy: what else is wrong shows with the next read. */
  private async retry(digest: Digest): Promise<Busy | undefined> {
    try {
      await this.options.tryBlob(digest, this.life.signal);
      return undefined;
    } catch (error) {
      this.life.signal.throwIfAborted();
      return busyOf(error);
    }
  }

  private async pause(): Promise<void> {
    const { clock, random } = this.options;
    this.failures += 1;
    this.move({ isReady: false });
    await clock.sleep(pauseAfter(this.failures, PAUSES) * (0.7 + 0.6 * random()), this.life.signal);
    this.move(READY);
  }

  private move(state: PeerState): void {
    this.current = state;
    this.options.changed();
    if (state.isReady) this.turned.notify();
  }
}
