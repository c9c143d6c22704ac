import { parseEnvelope } from '../../bundle/format/dsse.ts';
import { parseImageDocument } from '../../bundle/format/oci-schema.ts';
import { parsePayload } from '../../bundle/format/schema.ts';
import { limits } from '../../bundle/limits.ts';
import { Link, type LinkedBundle } from '../../distribution/linked-bundle.ts';
import { Answered, Broken } from '../../distribution/registry-client.ts';
import type { OfferedBundle } from '../../domain/fleet/node-status.ts';
import type { ContentPointer, Payload } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { parseReference, type Reference } from '../../domain/model/reference.ts';
import { nextOpenings } from '../../domain/model/windows.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { clip } from '../../platform/plain-text.ts';
import { Observable } from '../../platform/subscription.ts';
import type { Pace } from '../serve/served-nodes.ts';
import { busyError, type OfferedFile, offersError, wireLimits } from '../wire/documents.ts';
import type { OfferedBundles } from '../wire/server.ts';

export type SourceSettings = NonNullable<Settings['sources'][string]>;

interface SourceOptions {
  readonly reference: string;
  readonly settings: SourceSettings;
  /** Its windows are in this time zone. */
  readonly zone: string;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What is given at any time: documents. */
const SMALL_BYTES = 256 * 1024;
const DAY_MS = 24 * 3_600_000;
const LEAST_EVERY_MS = 60_000;
/** After a failure; never later than the next visit would be. */
const PAUSES = { firstMs: 10_000, longestMs: 900_000 };
/** A node that waits for a window asks again at least this often. */
const LONGEST_WAIT_MS = 600_000;
const MAX_MANIFESTS = limits.images * limits.manifestsPerImage + limits.artifacts + 1;
/** So many fit into `wireLimits.blobsBytes`. */
const MAX_BLOBS = 80_000;
/** What all manifests name, with repetitions: all of it is remembered. */
const MAX_PARTS = MAX_BLOBS + limits.layerUses;
/** Parts of a message may be from the registry, as the names in its certificate. */
const FAULT_LENGTH = 500;
/** What is paced at once: at 8 kbit/s it comes before the daemon takes the source for hanging. */
const SLICE_BYTES = 8 * 1024;

interface Shown {
  readonly linked: LinkedBundle;
  readonly offered: OfferedBundle;
  readonly payload: Payload;
  readonly envelope: Buffer;
  readonly blobs: ReadonlyMap<Digest, number>;
  /** `contents.json` and `index.json`. Over a slow link they take longer than the daemon waits. */
  readonly lists: ReadonlyMap<Digest, Buffer>;
}

/**
 * A bundle under a tag of a registry, as another node would offer it. Nothing of it is verified
 * here: the daemon does that. Only sizes are remembered, and the envelope.
 */
export class Source extends Observable implements OfferedBundles {
  readonly name: string;
  private readonly reference: Reference;
  private readonly link: Link;
  private shown: Shown | undefined;
  /** What manifests name, by their digests: they are read once, also where a connection breaks. */
  private parts = new Map<Digest, readonly ContentPointer[]>();
  /** Their beginning, where a connection broke. */
  private begun = new Map<Digest, Buffer>();
  private fault: string | undefined;
  private failures = 0;
  /** How long a busy registry asked to wait. */
  private wishMs = 0;
  private stop: AbortSignal | undefined;
  private readonly visit = shareRuns(() => this.visitNow());

  constructor(private readonly options: SourceOptions) {
    super();
    const { reference, settings } = options;
    this.name = reference;
    this.reference = parseReference(reference);
    const { authfile, ca } = settings;
    this.link = new Link(this.reference, { authfile, ca }, 'pull');
  }

  /** Why its last visit failed. */
  trouble(): string | undefined {
    return this.fault;
  }

  bundles(): readonly OfferedBundle[] {
    return this.shown === undefined ? [] : [this.shown.offered];
  }

  /** Until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, settings, random } = this.options;
    this.stop = signal;
    while (!signal.aborted) {
      await this.visit().catch(() => undefined); // only an abort throws
      const every = Math.max(LEAST_EVERY_MS, settings.every ?? DAY_MS);
      const again = this.failures === 0 ? every : pauseAfter(this.failures, PAUSES);
      const pauseMs = Math.min(every, Math.max(again, this.wishMs)) * (0.9 + 0.2 * random());
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** A visit that begins now. Never throws for what is wrong there. */
  async look(signal: AbortSignal): Promise<void> {
    if (this.stop !== undefined) await untilAborted(this.visit(), signal);
  }

  private async visitNow(): Promise<void> {
    const signal = this.stop;
    if (signal === undefined) return;
    const before = this.fault;
    try {
      const isNew = (await this.link.digestOf(this.reference, signal)) !== this.shown?.linked.digest;
      if (isNew) this.shown = await this.readAll(signal);
      [this.fault, this.failures, this.wishMs] = [undefined, 0, 0];
      if (isNew || before !== undefined) this.notify();
    } catch (error) {
      signal.throwIfAborted();
      const reason = clip(reasonOf(error), FAULT_LENGTH);
      this.fault = reason.includes(this.name) ? reason : `${this.name}: ${reason}`;
      this.failures += 1;
      const cause = causeOf(error);
      this.wishMs = cause instanceof Answered ? cause.wishMs : 0;
      if (before !== this.fault) this.notify();
    }
  }

  private async readAll(signal: AbortSignal): Promise<Shown> {
    const linked = await this.link.find(this.reference, signal);
    if (linked.manifests.size > MAX_MANIFESTS)
      throw this.link.fault(`its index names more than ${MAX_MANIFESTS} manifests`);
    const envelope = await this.link.blob(linked.envelope, signal);
    const { payload: bytes } = parseEnvelope(envelope);
    const payload = parsePayload(bytes);
    this.parts = new Map([...this.parts].filter(([digest]) => linked.manifests.has(digest)));
    const blobs = new Map([...linked.manifests, ...linked.others.map(({ digest, size }) => [digest, size] as const)]);
    let uses = 0;
    for (const digest of linked.manifests.keys()) {
      const known = this.parts.get(digest) ?? (await this.partsOf(digest, signal));
      this.parts.set(digest, known);
      for (const part of known) blobs.set(part.digest, part.size);
      uses += known.length;
      if (uses > MAX_PARTS) throw this.link.fault(`its manifests name more than ${MAX_PARTS} blobs`);
      if (blobs.size > MAX_BLOBS) throw this.link.fault(`it has more than ${MAX_BLOBS} blobs`);
    }
    const lists = new Map<Digest, Buffer>();
    const wanted = [payload.contents.digest, payload.index.digest];
    this.begun = new Map([...this.begun].filter(([digest]) => wanted.includes(digest)));
    for (const list of [payload.contents, payload.index]) {
      const known = this.shown?.lists.get(list.digest);
      lists.set(list.digest, known ?? (await this.link.known(this.listOf(list, signal), signal)));
    }
    this.begun.clear();
    const { name, version, sequence } = payload;
    const offered = { bundleId: digestOf(bytes), name, version, sequence, isWhole: true, revision: linked.digest };
    return { linked, offered, payload, envelope, blobs, lists };
  }

  private async partsOf(digest: Digest, signal: AbortSignal): Promise<readonly ContentPointer[]> {
    const bytes = await this.link.manifest(digest, signal);
    await this.options.pace.take(bytes.length, signal);
    if (digestOf(bytes) !== digest) throw this.link.fault(`it sends another manifest than ${digest}`);
    const document = parseImageDocument(bytes, `manifest ${digest} of ${this.name}`, 'bundle/registry');
    if (document.kind === 'index') return [];
    return [document.config, ...document.layers].map(({ digest: of, size }) => ({ digest: of, size }));
  }

  async offers() {
    return { bundles: this.bundles() };
  }

  /** `contents.json` is a blob. */
  async file(bundleId: BundleId, name: OfferedFile): Promise<Buffer | undefined> {
    const { shown } = this;
    if (shown?.offered.bundleId !== bundleId || name === 'contents.json') return undefined;
    if (name === 'bundle.dsse.json') return shown.envelope;
    return shown.lists.get(shown.payload.index.digest);
  }

  async blobs(bundleId: BundleId): Promise<ReadonlyMap<Digest, number> | undefined> {
    return this.shown?.offered.bundleId === bundleId ? this.shown.blobs : undefined;
  }

  async sizeOf(digest: Digest): Promise<number | undefined> {
    return this.shown?.blobs.get(digest);
  }

  /** @throws AppError `offers/busy`, `offers/unreachable`, `media/gone` */
  async *read(digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const sizeBytes = await this.sizeOf(digest);
    if (sizeBytes === undefined) throw gone(this.name, digest);
    const list = this.shown?.lists.get(digest);
    if (list !== undefined) {
      yield list.subarray(startByte);
      return;
    }
    let closesAt = this.checkWindow(sizeBytes);
    for await (const slice of this.stream(digest, startByte, sizeBytes, signal)) {
      if (this.options.clock.now() >= closesAt) closesAt = this.checkWindow(sizeBytes);
      yield slice;
    }
  }

  /** At any time, whatever its size. */
  private async listOf({ digest, size }: ContentPointer, signal: AbortSignal): Promise<Buffer> {
    if (size > Math.max(limits.contentsBytes, limits.indexBytes)) throw this.link.fault(`${digest} is too large`);
    const chunks = [this.begun.get(digest) ?? Buffer.alloc(0)];
    const begunBytes = chunks[0]?.length ?? 0;
    try {
      if (begunBytes < size) for await (const chunk of this.paced(digest, begunBytes, size, signal)) chunks.push(chunk);
    } finally {
      this.begun.set(digest, Buffer.concat(chunks));
    }
    const bytes = Buffer.concat(chunks);
    if (digestOf(bytes) === digest) return bytes;
    this.begun.delete(digest);
    throw this.link.fault(`it sends other bytes for ${digest}`);
  }

  private async *stream(
    digest: Digest,
    startByte: number,
    sizeBytes: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    try {
      if (this.shown?.linked.manifests.has(digest)) {
        yield (await this.link.manifest(digest, signal)).subarray(startByte);
        return;
      }
      yield* this.paced(digest, startByte, sizeBytes, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw this.asOffer(error);
    }
  }

  private async *paced(
    digest: Digest,
    startByte: number,
    sizeBytes: number,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    let remaining = sizeBytes - startByte;
    for await (const chunk of this.link.read(digest, startByte, signal)) {
      const wanted = chunk.subarray(0, remaining);
      remaining -= wanted.length;
      for (let at = 0; at < wanted.length; at += SLICE_BYTES) {
        const slice = wanted.subarray(at, at + SLICE_BYTES);
        await this.options.pace.take(slice.length, signal);
        yield slice;
      }
      if (remaining === 0) return;
    }
  }

  /** @returns when the window closes. @throws AppError `offers/busy` while none is open */
  private checkWindow(sizeBytes: number): number {
    const { settings, zone, clock } = this.options;
    const { windows = [] } = settings;
    if (sizeBytes <= SMALL_BYTES || windows.length === 0) return Number.POSITIVE_INFINITY;
    const now = clock.now();
    const [next] = nextOpenings(windows, zone, now, 1);
    if (next !== undefined && next.opensAt === undefined) return next.closesAt ?? Number.POSITIVE_INFINITY;
    const waitMs = next?.opensAt === undefined ? undefined : Math.max(1_000, Math.round(next.opensAt - now));
    const queue = waitMs === undefined ? undefined : { place: 0, waiting: 0, waitMs };
    throw busyError(this.name, defined({ queue, retryMs: Math.min(LONGEST_WAIT_MS, waitMs ?? LONGEST_WAIT_MS) }));
  }

  private asOffer(error: unknown): unknown {
    const cause = causeOf(error);
    if (cause instanceof Answered && cause.mayPass) {
      return busyError(this.name, { retryMs: Math.min(LONGEST_WAIT_MS, cause.wishMs || wireLimits.retryMs) });
    }
    return cause instanceof Broken ? offersError('offers/unreachable', reasonOf(error), error) : error;
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof AppError ? error.cause : error;
}

function gone(name: string, digest: Digest): AppError {
  return new AppError({ code: 'media/gone', message: `${name} does not name ${digest}`, disposition: 'wait' });
}
