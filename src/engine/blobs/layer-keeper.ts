import type { KeepPlan } from '../../domain/decide/pull-plan.ts';
import type { Layer } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import type { EngineContext } from '../context.ts';
import { Job } from '../tasks/tasks.ts';
import { findBadBlob } from './find-damage.ts';

const RETRY_MS = 60_000;

/**
 * Copies and removes layers on the node's own disk beside the rounds. INVARIANTS: one copy at a
 * time; one removal at a time, in the order of the plans.
 */
export class LayerKeeper {
  private readonly job: Job;
  private copied: Digest | undefined;
  private leftBytes = 0;
  /** Monotonic milliseconds. */
  private readonly retryAt = new Map<Digest, number>();
  private readonly logged = new Set<string>();
  private readonly faults = new Map<Digest, Fault>();
  private removal: Promise<void> = Promise.resolve();
  private readonly ending = new AbortController();

  constructor(private readonly context: EngineContext) {
    this.job = new Job(context);
  }

  /** Nothing is copied while `isIdle` is false, so that pulls don't share the medium. */
  reconcile(plan: KeepPlan, isIdle: boolean): void {
    const { layers, clock } = this.context;
    layers.want(plan.wanted);
    this.removal = this.removal.then(() => this.removeUnwanted(plan.wanted));
    if (this.job.isRunning) {
      if (!isIdle || plan.copy.every(({ digest }) => digest !== this.copied)) this.job.abort();
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
    return this.job.isRunning ? this.leftBytes : undefined;
  }

  /** Of layers that are still to be copied. */
  copyFaults(): ReadonlyMap<Digest, Fault> {
    return new Map(this.faults);
  }

  async stop(): Promise<void> {
    this.ending.abort();
    await this.job.stop();
    await this.removal;
  }

  /** Never throws. What can't be removed stays until the next plan. */
  private async removeUnwanted(wanted: ReadonlySet<Digest>): Promise<void> {
    const { layers, log } = this.context;
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
        this.context.log.warn({ err: error, digest }, message);
      }
    };
    this.job.start(copy).catch(() => undefined); // it was stopped
  }

  private async copyLayer({ digest, sizeBytes }: Layer, signal: AbortSignal): Promise<void> {
    const { layers, source } = this.context;
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
      const bad = await findBadBlob([digest], this.context.source, signal);
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
    this.retryAt.set(digest, this.context.clock.monotonic() + RETRY_MS);
  }

  private logDamage(digest: Digest, what: string): void {
    if (this.logged.has(what)) return;
    this.logged.add(what);
    this.context.log.warn({ digest }, what);
  }
}
