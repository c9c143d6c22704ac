import { createHash } from 'node:crypto';
import type { Layer } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobCopy, BlobSource, BlobUnion, LayerCopies, LayerInventory } from '../../ports/blobs.ts';
import type { Decided, Part } from '../context.ts';
import type { Jobs } from '../tasks/jobs.ts';

const JOB = 'copy of a layer';

const RETRY_MS = 60_000;

/**
 * Copies and removes layers on the node's own disk beside the rounds. INVARIANTS: one copy at a
 * time; one removal at a time, in the order of the plans.
 */
export class LayerKeeper implements Part {
  private copied: Digest | undefined;
  private leftBytes = 0;
  /** Monotonic milliseconds. */
  private readonly retryAt = new Map<Digest, number>();
  private readonly logged = new Set<string>();
  private readonly faults = new Map<Digest, Fault>();
  private removal: Promise<void> = Promise.resolve();
  private readonly ending = new AbortController();

  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly layers: LayerInventory & LayerCopies & BlobSource,
    private readonly source: BlobUnion,
  ) {}

  /** Nothing is copied while `isIdle` is false, so that pulls don't share the medium. */
  reconcile({ plan, isIdle }: Pick<Decided, 'plan' | 'isIdle'>): void {
    const { layers, clock, jobs } = this;
    if (plan === undefined) return;
    layers.want(plan.wanted);
    this.removal = this.removal.then(() => this.removeUnwanted(plan.wanted));
    if (jobs.isRunning(JOB)) {
      if (!isIdle || plan.copy.every(({ digest }) => digest !== this.copied)) jobs.abort(JOB);
      return;
    }
    const now = clock.monotonic();
    const open = new Set(plan.copy.map(({ digest }) => digest));
    // What a medium brings again is tried at once.
    for (const digest of [...this.faults.keys(), ...this.retryAt.keys()]) {
      if (open.has(digest)) continue;
      this.faults.delete(digest);
      this.retryAt.delete(digest);
    }
    const due = plan.copy.filter(({ digest }) => now >= (this.retryAt.get(digest) ?? 0));
    this.leftBytes = due.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const next = isIdle ? due[0] : undefined;
    if (next !== undefined) this.start(next);
  }

  /** Bytes that were left when the copy of the current layer began. */
  copyingBytes(): number | undefined {
    return this.jobs.isRunning(JOB) ? this.leftBytes : undefined;
  }

  /** Why layers could not be copied that are still to be copied. */
  copyFaults(): ReadonlyMap<Digest, Fault> {
    return new Map(this.faults);
  }

  async stop(): Promise<void> {
    this.ending.abort();
    await this.removal;
  }

  /** Never throws. What can't be removed stays until the next plan. */
  private async removeUnwanted(wanted: ReadonlySet<Digest>): Promise<void> {
    const { layers, log } = this;
    try {
      const count = await layers.retain(wanted, this.ending.signal);
      if (count > 0) log.info({}, `Removed ${count} kept layers that nothing needs any more`);
    } catch (error) {
      if (this.ending.signal.aborted) return;
      log.warn({ err: error }, `Layers that nothing needs could not be removed: ${reasonOf(error)}`);
    }
  }

  private start(layer: Layer): void {
    const { digest } = layer;
    this.copied = digest;
    const copy = async (signal: AbortSignal) => {
      try {
        await this.copyLayer(layer, signal);
      } catch (error) {
        if (signal.aborted) return;
        const message = `${digest} could not be kept: ${reasonOf(error)}`;
        this.postpone(digest, { code: error instanceof AppError ? error.code : 'store/blob', message });
        this.log.warn({ err: error, digest }, message);
      }
    };
    this.jobs.start(JOB, copy).catch(() => undefined); // the jobs were stopped
  }

  private async copyLayer({ digest, sizeBytes }: Layer, signal: AbortSignal): Promise<void> {
    const { layers, source } = this;
    // The bad copy is already reported, and trusted again when its medium changes.
    const copies = await source.copiesOf(digest, signal);
    if (!copies.some(({ isTrusted }) => isTrusted)) return this.postpone(digest);
    const writer = await layers.begin(digest, sizeBytes, undefined, signal);
    if (writer === undefined) {
      if ((await layers.sizeOf(digest, signal)) === undefined) this.postpone(digest, layers.trouble());
      return;
    }
    try {
      const chunks = source.read(digest, writer.startByte, signal, oneBuffer());
      for await (const chunk of chunks) await writer.write(chunk, signal);
    } catch (error) {
      // All bytes were read and their digest was wrong, whatever fails later.
      if (!writer.isDamaged()) throw error;
    } finally {
      await writer.close();
    }
    if (writer.isDamaged()) await this.nameDamage(digest, signal);
    else if ((await layers.sizeOf(digest, signal)) === undefined) this.postpone(digest, layers.trouble());
  }

  private async nameDamage(digest: Digest, signal: AbortSignal): Promise<void> {
    const came = `Blob ${digest} was read with wrong bytes`;
    try {
      const bad = await findBadBlob([digest], this.source, signal);
      if (bad?.instead === undefined) this.postpone(digest);
      const what =
        bad === undefined
          ? `${came}, but its copies have the right ones; it is copied again`
          : `Blob ${digest} could not be kept on this node: it is damaged on ${bad.at}. Copy the bundle to it again`;
      if (bad !== undefined) this.faults.set(digest, { code: 'store/blob', message: what });
      this.logDamage(digest, what);
    } catch (error) {
      if (!signal.aborted) throw error;
      this.logDamage(digest, `${came}; it is copied again later, since pulls need its medium now`);
    }
  }

  private postpone(digest: Digest, fault?: Fault): void {
    if (fault !== undefined) this.faults.set(digest, fault);
    this.retryAt.set(digest, this.clock.monotonic() + RETRY_MS);
  }

  private logDamage(digest: Digest, what: string): void {
    if (this.logged.has(what)) return;
    this.logged.add(what);
    this.log.warn({ digest }, what);
  }
}

export type BadBlob = BadCopy & {
  readonly digest: Digest;
  readonly at: string;
  readonly file?: string;
  /** Another copy, which is used from now on. */
  readonly instead: string | undefined;
};

type BadCopy =
  | { readonly kind: 'damaged'; readonly actual: Digest; readonly sizeBytes: number }
  | { readonly kind: 'unreadable'; readonly why: string };

/**
 * Finds the bad blob after the runtime refused an image. Each bad copy that was read is distrusted,
 * so that the next try uses another one.
 * @returns the first damaged blob without another copy, where reading stops; otherwise the first
 *   unreadable one without another copy, the first damaged one, the first unreadable one
 */
export async function findBadBlob(
  digests: readonly Digest[],
  source: Pick<BlobUnion, 'copiesOf'>,
  signal: AbortSignal,
): Promise<BadBlob | undefined> {
  const found: BadBlob[] = [];
  for (const digest of digests) {
    const bad = await checkBlob(digest, source, signal);
    if (bad !== undefined) found.push(bad);
    if (bad?.kind === 'damaged' && bad.instead === undefined) return bad;
  }
  return found.find(({ instead }) => instead === undefined) ?? found.find(({ kind }) => kind === 'damaged') ?? found[0];
}

async function checkBlob(
  digest: Digest,
  source: Pick<BlobUnion, 'copiesOf'>,
  signal: AbortSignal,
): Promise<BadBlob | undefined> {
  const [served] = await source.copiesOf(digest, signal);
  const bad = served && (await checkCopy(digest, served, signal));
  if (served === undefined || bad === undefined) return undefined;
  served.distrust(bad.kind);
  const [next] = await source.copiesOf(digest, signal);
  const { label: at, file } = served;
  return { ...bad, digest, at, ...defined({ file }), instead: next?.isTrusted === true ? next.label : undefined };
}

async function checkCopy(digest: Digest, copy: BlobCopy, signal: AbortSignal): Promise<BadCopy | undefined> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of copy.read(0, signal, oneBuffer())) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    }
  } catch (error) {
    signal.throwIfAborted();
    const isBad = error instanceof AppError && UNREADABLE.has(error.code);
    return isBad ? { kind: 'unreadable', why: reasonOf(error) } : undefined;
  }
  const actual = digestFromHex(hash.digest('hex'));
  return actual === digest ? undefined : { kind: 'damaged', actual, sizeBytes };
}

/** Read errors of a medium or of the node's own disk. */
const UNREADABLE: ReadonlySet<string> = new Set(['media/read', 'store/blob']);
