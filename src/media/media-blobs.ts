import { createHash } from 'node:crypto';
import { limits } from '../bundle/limits.ts';
import { JUDGED_MS, LEAST_BYTES } from '../domain/fleet/givers.ts';
import { type BundleId, type Digest, digestFromHex } from '../domain/model/digest.ts';
import type { FoundBundle, MediumId } from '../domain/model/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { linkSignals, untilAborted, withEither } from '../platform/async/abort.ts';
import { type Clock, systemClock } from '../platform/clock.ts';
import type { Allocate } from '../platform/files/file-access.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import { Observable } from '../platform/subscription.ts';
import type { BlobCopy, BlobUnion, CopyFault } from '../ports/blobs.ts';
import { type HeldBundle, heldBundle } from './held-bundles.ts';
import { type MediumBundle, mediaError, type PluggedMedium, type ReadableBundle } from './media-provider.ts';

interface MediumSource {
  readonly bundleId: BundleId;
  readonly plugged: PluggedMedium;
  /** Aborts when the medium is unplugged. */
  readonly gone: AbortSignal;
  readonly bundle: ReadableBundle;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
  /** Missing or too short. */
  readonly missing: ReadonlySet<Digest>;
  /** Such copies are used only while there is no other copy. */
  readonly faults: Map<Digest, CopyFault>;
}

interface MediumContents {
  readonly plugged: PluggedMedium;
  readonly gone: AbortSignal;
  readonly bundles: readonly MediumBundle[];
  /** The results for {@link bundles}, by path. */
  readonly judged: readonly FoundBundle[];
}

/** A source that did not change is the same object. */
const HELD = new WeakMap<MediumSource, HeldBundle>();

/**
 * The blobs of the verified bundles of all media. Call `notify` when another node can give its
 * blobs again, or can't for a while.
 */
export class MediaBlobs extends Observable implements BlobUnion {
  private readonly sources = new Map<MediumId, readonly MediumSource[]>();
  /** Wrong blobs of other nodes, kept for as long as the program runs. */
  private readonly wrong = new Map<MediumId, Set<Digest>>();
  /** The current number of streams of each medium. */
  private readonly streams = new Map<MediumId, number>();

  constructor(
    private readonly log: Pick<Log, 'warn'>,
    private readonly clock: Pick<Clock, 'monotonic'> = systemClock,
  ) {
    super();
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return (await this.findSource(digest, signal))?.size;
  }

  async copiesOf(digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]> {
    const holders = this.candidatesFor(digest);
    const sizes = await Promise.all(holders.map((source) => sizeIn(source, digest, signal)));
    return holders.filter((_, at) => sizes[at] !== undefined).map((source) => this.copyIn(source, digest));
  }

  /** After a failed read, another medium continues. */
  async *read(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    allocate?: Allocate,
  ): AsyncGenerator<Buffer, void, undefined> {
    const found = await this.findSource(digest, signal);
    // A stream must not continue with bytes that are known to be wrong.
    const isUseless = startByte > 0 && found?.source.faults.get(digest) === 'damaged';
    if (found === undefined || isUseless) {
      const next = 'plug in the one with its bundle';
      throw mediaError('media/gone', `No medium that is plugged in has the blob ${digest}; ${next}`);
    }
    const { source, size: sizeBytes } = found;
    const given = this.readFrom(source, { digest, startByte }, signal, allocate);
    const chunks = source.plugged.peer === undefined ? given : this.paced(given, source, digest);
    const isChecked = source.plugged.peer !== undefined && startByte === 0 && sizeBytes <= limits.manifestBytes;
    let fault: CopyFault = 'unreadable';
    const isWrong = () => {
      fault = 'damaged';
    };
    try {
      yield* isChecked ? checked(chunks, digest, isWrong) : whole(chunks, startByte, sizeBytes);
    } catch (error) {
      if (isFaultOfCopy(source, error)) await this.noteFault(source, { digest, fault, error }, signal);
      throw error;
    }
  }

  /** A changed medium may be repaired. Wrong blobs of another node stay known. */
  offer({ plugged, gone, bundles, judged }: MediumContents): void {
    const wrong = plugged.peer === undefined ? [] : (this.wrong.get(plugged.mediumId) ?? []);
    const readable = new Map(bundles.flatMap((one) => (one.kind === 'bundle' ? [[one.path, one] as const] : [])));
    const sources = judged.flatMap((found): MediumSource[] => {
      const bundle = readable.get(found.path);
      if (found.kind !== 'verified' || bundle === undefined) return [];
      const missing = new Set(found.missing.map(({ digest }) => digest));
      const faults = new Map([...wrong].map((digest): [Digest, CopyFault] => [digest, 'damaged']));
      return [{ bundleId: found.bundle.bundleId, plugged, gone, bundle, found, missing, faults }];
    });
    this.sources.set(plugged.mediumId, sources);
    this.notify();
  }

  forget(mediumId: MediumId): void {
    if (this.sources.delete(mediumId)) this.notify();
  }

  forgetAll(): void {
    this.sources.clear();
    this.notify();
  }

  bundle(bundleId: BundleId): ReadableBundle | undefined {
    return this.plugged().find((source) => source.bundleId === bundleId)?.bundle;
  }

  /** Bundles of other nodes are left out. */
  held(): readonly HeldBundle[] {
    const sticks = this.plugged().filter(({ plugged }) => plugged.peer === undefined);
    return sticks.map((source) => {
      const known = HELD.get(source);
      if (known !== undefined) return known;
      const held = heldBundle(source.found, source.bundle.reader);
      HELD.set(source, held);
      return held;
    });
  }

  private plugged(): readonly MediumSource[] {
    return [...this.sources.values()].flat().filter(({ gone }) => !gone.aborted);
  }

  private async findSource(
    digest: Digest,
    signal: AbortSignal,
  ): Promise<{ source: MediumSource; size: number } | undefined> {
    for (const source of this.candidatesFor(digest)) {
      const size = await sizeIn(source, digest, signal);
      if (size !== undefined) return { source, size };
    }
    return undefined;
  }

  private copyIn(source: MediumSource, digest: Digest): BlobCopy {
    const file = source.bundle.fileOf?.(digest);
    return {
      label: source.plugged.label,
      ...(file !== undefined && { file }),
      isTrusted: !source.faults.has(digest),
      read: (startByte, signal, allocate) => this.readFrom(source, { digest, startByte }, signal, allocate),
      distrust: (fault) => this.distrust(source, digest, fault),
    };
  }

  /** Logs once which source is used instead. An unplugged stick of another node is no warning. */
  private async noteFault(
    source: MediumSource,
    { digest, fault, error }: { readonly digest: Digest; readonly fault: CopyFault; readonly error: AppError },
    signal: AbortSignal,
  ): Promise<void> {
    if (source.faults.has(digest)) return;
    this.distrust(source, digest, fault);
    if (error.code === 'media/gone') return;
    const next = (await this.findSource(digest, signal))?.source;
    if (next !== undefined && !next.faults.has(digest)) this.logChange(digest, source, next, error);
  }

  private logChange(digest: Digest, from: MediumSource, to: MediumSource, error: unknown): void {
    const [bad, good] = [from.plugged.label, to.plugged.label];
    const where = bad === good ? `another copy on ${good}` : good;
    const file = from.bundle.fileOf?.(digest);
    // The image that the runtime pulls is not known.
    const fields = { messageId: messageIds.blobDamaged, medium: bad, digest, file, image: 'not known', err: error };
    const fileThere = file === undefined ? '' : ` File on ${bad}: ${file}.`;
    this.log.warn(
      fields,
      `Blob ${digest} can't be read from ${bad}: ${reasonOf(error)}. It is taken from ${where} instead.${fileThere}`,
    );
  }

  /** Ends at once when the medium is unplugged, even while a read hangs. */
  private async *readFrom(
    source: MediumSource,
    { digest, startByte }: { readonly digest: Digest; readonly startByte: number },
    signal: AbortSignal,
    allocate?: Allocate,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { mediumId } = source.plugged;
    const count = (change: 1 | -1) => this.streams.set(mediumId, (this.streams.get(mediumId) ?? 0) + change);
    count(1);
    const { signal: both, release } = linkSignals([signal, source.gone]);
    const chunks = source.bundle.blobs.read(digest, startByte, both, allocate)[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await untilAborted(chunks.next(), both);
        if (next.done === true) return;
        yield next.value;
      }
    } catch (error) {
      source.gone.throwIfAborted();
      signal.throwIfAborted();
      // Reads from an unplugged stick fail at once, and udev reports it a moment later.
      if (!(await source.plugged.isThere(signal))) throw goneWhileReading(source, digest, error);
      throw error;
    } finally {
      count(-1);
      // This does not wait, because a read may hang.
      void Promise.resolve(chunks.return?.())
        .catch(() => undefined)
        .finally(release);
    }
  }

  /**
   * Ends for a node that gives less than {@link LEAST_BYTES} in {@link JUDGED_MS}, while another
   * source has the blob. The caller's pauses don't count. Without another source a thin link is
   * better than none.
   */
  private async *paced(
    chunks: AsyncIterable<Buffer>,
    source: MediumSource,
    digest: Digest,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { label } = source.plugged;
    let bytes = 0;
    let waitedMs = 0;
    let sinceMs = this.clock.monotonic();
    for await (const chunk of chunks) {
      bytes += chunk.length;
      waitedMs += this.clock.monotonic() - sinceMs;
      yield chunk;
      if (waitedMs >= JUDGED_MS) {
        const others = this.candidatesFor(digest).filter(({ plugged }) => plugged !== source.plugged);
        if (bytes < LEAST_BYTES && others.some(({ faults }) => !faults.has(digest))) {
          source.plugged.tooSlow?.();
          throw mediaError('media/gone', `${label} gave only ${bytes} bytes of ${digest} in a minute`);
        }
        bytes = 0;
        waitedMs = 0;
      }
      sinceMs = this.clock.monotonic();
    }
  }

  /**
   * Without nodes that can't give anything now. They are sorted:
   * 1. sources in which the blob was not found damaged before those in which it was;
   * 2. media of this node before other nodes;
   * 3. nodes that gave no wrong blob, and whose last answer was not an error;
   * 4. the node from which this one reads the fewest blobs now;
   * 5. the node that has the fewest blobs. The others stay free for nodes that need the blobs which
   *   only they have.
   */
  private candidatesFor(digest: Digest): readonly MediumSource[] {
    const isReadable = ({ plugged }: MediumSource) => plugged.peer?.().isReady !== false;
    const holders = this.plugged().filter((source) => !source.missing.has(digest) && isReadable(source));
    const rank = ({ faults, plugged }: MediumSource) =>
      (faults.has(digest) ? 2 : 0) + (plugged.peer === undefined ? 0 : 1);
    const doubt = ({ plugged }: MediumSource) =>
      (this.wrong.has(plugged.mediumId) ? 2 : 0) + (plugged.peer?.().hasFailed === true ? 1 : 0);
    const load = ({ plugged }: MediumSource) =>
      plugged.peer === undefined ? 0 : (this.streams.get(plugged.mediumId) ?? 0);
    const lacks = ({ plugged, missing }: MediumSource) => (plugged.peer === undefined ? 0 : missing.size);
    return [...holders].sort(
      (a, b) => rank(a) - rank(b) || doubt(a) - doubt(b) || load(a) - load(b) || lacks(b) - lacks(a),
    );
  }

  private distrust({ faults, plugged }: MediumSource, digest: Digest, fault: CopyFault): void {
    faults.set(digest, fault);
    if (fault !== 'damaged' || plugged.peer === undefined) return;
    const known = this.wrong.get(plugged.mediumId) ?? new Set();
    this.wrong.set(plugged.mediumId, known.add(digest));
    plugged.distrusted?.();
  }
}

/** Throws at the end for a wrong digest, so that a malicious node can't withhold documents. */
async function* checked(
  chunks: AsyncIterable<Buffer>,
  digest: Digest,
  isWrong: () => void,
): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
  const actual = digestFromHex(hash.digest('hex'));
  if (actual === digest) return;
  isWrong();
  throw mediaError('media/read', `its bytes have the digest ${actual}`);
}

/** Fails when the blob has more bytes. */
async function* whole(
  chunks: AsyncIterable<Buffer>,
  startByte: number,
  sizeBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let position = startByte;
  for await (const chunk of chunks) {
    position += chunk.length;
    yield chunk;
  }
  if (position >= sizeBytes) return;
  throw mediaError('media/read', `it ended after ${position} of ${sizeBytes} bytes`);
}

/** A node that can be read and lacks what it lists is not the first choice again. */
function isFaultOfCopy({ plugged, gone }: MediumSource, error: unknown): error is AppError {
  if (!(error instanceof AppError)) return false;
  if (error.code === 'media/read') return true;
  return error.code === 'media/gone' && !gone.aborted && plugged.peer?.().isReady === true;
}

/** Returns undefined after a failure, because the next source may have the blob. */
async function sizeIn(source: MediumSource, digest: Digest, signal: AbortSignal): Promise<number | undefined> {
  try {
    return await withEither([signal, source.gone], (both) => source.bundle.blobs.sizeOf(digest, both));
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

function goneWhileReading({ plugged: { label, peer } }: MediumSource, digest: Digest, cause: unknown): AppError {
  const message =
    peer === undefined
      ? `${label} was removed while ${digest} was read; plug it in again to continue`
      : `${label} stopped giving ${digest}; it goes on when a node or a stick has it`;
  return mediaError('media/gone', message, cause);
}
