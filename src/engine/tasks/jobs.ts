import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';

/** @throws whatever aborted `signal`, and its own errors */
type Work = (signal: AbortSignal) => Promise<void>;

interface Run {
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  readonly graceMs: number;
}

/**
 * Work beside the rounds, by name. INVARIANT: one run of a name at a time. The end of each run
 * requests a round.
 */
export class Jobs {
  private readonly ending = new AbortController();
  private readonly runs = new Map<string, Run>();

  constructor(
    private readonly clock: Clock,
    private readonly wantRound: () => void,
  ) {}

  isRunning(name: string): boolean {
    return this.runs.has(name);
  }

  get areStopped(): boolean {
    return this.ending.signal.aborted;
  }

  /**
   * Starts `work`, or joins the current run.
   * @param graceMs how long a run may go on after `stop`
   * @throws the error of `work`; an abort when the jobs were stopped
   */
  async start(name: string, work: Work, graceMs = 0): Promise<void> {
    this.ending.signal.throwIfAborted();
    const current = this.runs.get(name);
    if (current !== undefined) return current.ended;
    const controller = new AbortController();
    const run = Promise.resolve()
      .then(() => work(controller.signal))
      .finally(() => {
        this.runs.delete(name);
        this.wantRound();
      });
    this.runs.set(name, { controller, ended: run.catch(() => undefined), graceMs });
    return run;
  }

  /**
   * Waits for the current run, then starts `work`. @throws as `start`; whatever aborted `signal`:
   * the run goes on
   */
  async startNext(name: string, work: Work, signal: AbortSignal): Promise<void> {
    while (this.isRunning(name)) await this.ended(name, signal);
    await untilAborted(this.start(name, work), signal);
  }

  /** Resolves at the end of the current run. @throws whatever aborted `signal` */
  async ended(name: string, signal: AbortSignal): Promise<void> {
    const run = this.runs.get(name);
    if (run !== undefined) await untilAborted(run.ended, signal);
  }

  abort(name: string): void {
    this.runs.get(name)?.controller.abort();
  }

  /** Starts nothing more. Each run has its time to end, and is aborted then. */
  async stop(): Promise<void> {
    this.ending.abort();
    await Promise.all([...this.runs.values()].map((run) => this.end(run)));
  }

  private async end({ controller, ended, graceMs }: Run): Promise<void> {
    if (graceMs > 0) {
      const over = new AbortController();
      await Promise.race([ended, this.clock.sleep(graceMs, over.signal).catch(() => undefined)]);
      over.abort();
    }
    controller.abort();
    await ended;
  }
}

/** How long a medium rests after a failure. */
const PAUSES = { firstMs: 1_000, longestMs: 30_000 };
/** While the node's own disk can't be written, so that work continues soon after. */
const DISK_PAUSES = { firstMs: 1_000, longestMs: 5_000 };

/** Each medium has its own job, so that a slow or bad stick delays nothing else. */
export class MediaJobs {
  private readonly faults = new Map<MediumId, { reason: Fault; count: number }>();

  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly wantRound: () => void,
  ) {}

  isBusy(mediumId: MediumId): boolean {
    return this.jobs.isRunning(nameOf(mediumId));
  }

  /** Why a job failed whose medium waits for another try. */
  obstacle(): Fault | undefined {
    // A failure of a medium that was unplugged no longer counts.
    return [...this.faults].find(([mediumId]) => this.isBusy(mediumId))?.[1].reason;
  }

  /** Starts `work` unless the medium is busy. `onFail` reports the error and returns its reason. */
  start(mediumId: MediumId, work: Work, onFail: (error: unknown) => Fault): void {
    const run = (signal: AbortSignal) => this.run(mediumId, work, onFail, signal);
    this.jobs.start(nameOf(mediumId), run).catch(() => undefined); // the jobs were stopped
  }

  private async run(
    mediumId: MediumId,
    work: Work,
    onFail: (error: unknown) => Fault,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await work(signal);
      this.faults.delete(mediumId);
    } catch (error) {
      if (signal.aborted) return;
      const count = (this.faults.get(mediumId)?.count ?? 0) + 1;
      const reason = onFail(error);
      this.faults.set(mediumId, { reason, count });
      this.wantRound();
      const pauseMs = pauseAfter(count, isDiskTrouble(reason) ? DISK_PAUSES : PAUSES);
      await this.clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }
}

function nameOf(mediumId: MediumId): string {
  return `medium ${mediumId}`;
}
