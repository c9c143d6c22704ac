import { type RuntimeObservation, usableImages } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { lackingCount } from '../../domain/preload/supply.ts';
import type { StorageSyncs } from '../../domain/state/checks.ts';
import type { Observed } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BootMark, StoragePort } from '../../ports/runtime.ts';
import type { Decided, Part } from '../context.ts';
import type { Jobs } from '../tasks/jobs.ts';

const JOB = 'sync of the storage';

const PAUSES = { firstMs: 5_000, longestMs: 5 * 60_000 };

/**
 * Brings what the runtime has stored to the disk, beside the rounds. No runtime does that itself
 * (docs/runtime-facts.md, fact 56). INVARIANT: an image counts as synced when it was listed before
 * the begin of a sync that has succeeded, and was neither pulled nor missing since. Nothing is
 * remembered over a restart of the daemon: the first sync then has little to write.
 */
export class StorageKeeper implements Part {
  private readonly synced = new Set<string>();
  /** What the running sync covers. */
  private covered = new Set<string>();
  /** Monotonic milliseconds. */
  private beganAt: number | undefined;
  private failure: { readonly reason: Fault; readonly attempts: number; readonly retryAt: number } | undefined;
  /** Images may be in memory only, also until the runtime has answered. */
  private isBehind = true;

  /** @param disk undefined where nothing is synced, as in a rehearsal */
  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly disk: StoragePort | undefined,
    private readonly bootMark: BootMark,
  ) {}

  syncs(): StorageSyncs | undefined {
    if (this.disk === undefined) return undefined;
    const runningMs = this.beganAt === undefined ? undefined : this.clock.monotonic() - this.beganAt;
    return { synced: new Set(this.synced), runningMs, failure: this.failure?.reason };
  }

  /** Call after a pull. */
  changed(reference: string): void {
    this.isBehind = true;
    this.synced.delete(reference);
    this.covered.delete(reference);
  }

  /** An image that is missing may come back from others. */
  observe({ runtime }: Observed): void {
    if (runtime.kind !== 'reachable') return;
    const listed = namesIn(runtime);
    for (const names of [this.synced, this.covered])
      for (const reference of names) if (!listed.has(reference)) names.delete(reference);
  }

  /**
   * Starts a sync for a release that has all its images, or for those that there are when nothing
   * is pulled: its next images may be on another stick.
   */
  reconcile({ observed: { runtime }, assessment: { bundles }, isIdle }: Decided): void {
    const { jobs, clock } = this;
    // All images count as absent then, and none as unsynced.
    if (runtime.kind !== 'reachable') return;
    const behind = bundles.filter(({ unsyncedImages }) => unsyncedImages.length > 0);
    this.isBehind = behind.length > 0 || jobs.isRunning(JOB);
    if (!behind.some((entry) => isIdle || lackingCount(entry) === 0)) return;
    if (jobs.isRunning(JOB) || clock.monotonic() < (this.failure?.retryAt ?? 0)) return;
    const listed = namesIn(runtime);
    // STATUS and the journal have the reason of a failure.
    jobs.start(JOB, (signal) => this.run(listed, signal)).catch(() => undefined);
  }

  /**
   * Brings all that is stored now to the disk.
   * @throws AppError `host/sync` (`retry`); whatever aborted `signal`
   */
  async syncNow(signal: AbortSignal): Promise<void> {
    if (this.disk !== undefined) await this.jobs.startNext(JOB, (inner) => this.run(new Set(), inner), signal);
  }

  /** After a power cut the images are checked then. */
  stop(): void {
    if (this.isBehind) this.bootMark.keep();
  }

  private async run(listed: Set<string>, signal: AbortSignal): Promise<void> {
    const { disk, clock, log } = this;
    this.covered = listed;
    this.beganAt = clock.monotonic();
    try {
      await disk?.sync(signal);
      for (const reference of this.covered) this.synced.add(reference);
      this.failure = undefined;
    } catch (error) {
      signal.throwIfAborted();
      const attempts = (this.failure?.attempts ?? 0) + 1;
      const reason = { code: error instanceof AppError ? error.code : 'host/sync', message: reasonOf(error) };
      this.failure = { reason, attempts, retryAt: clock.monotonic() + pauseAfter(attempts, PAUSES) };
      log.warn({ err: error }, `Images could not be brought to the disk: ${reason.message}`);
      throw error;
    } finally {
      this.beganAt = undefined;
    }
  }
}

function namesIn({ images }: Extract<RuntimeObservation, { readonly kind: 'reachable' }>): Set<string> {
  return new Set(usableImages(images).flatMap(({ repoDigests }) => repoDigests));
}
