import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import { keyOf } from './failures.ts';

export type TaskEnd = 'pulled' | 'ended';

/** Long effects beside the rounds, each with its own AbortController. */
export class Tasks {
  private readonly table = new Map<string, { task: RunningTask; controller: AbortController; ended: Promise<void> }>();

  /** @param onEnd called when the task is no longer listed */
  constructor(private readonly onEnd: (task: RunningTask, end: TaskEnd) => void) {}

  running(): readonly RunningTask[] {
    return [...this.table.values()].map((entry) => entry.task);
  }

  /** Starts `work` unless the same task runs. An error of `work` is ignored. */
  start(task: RunningTask, work: (signal: AbortSignal) => Promise<TaskEnd>): void {
    const key = keyOf(task);
    if (this.table.has(key)) return;
    const controller = new AbortController();
    const ended = work(controller.signal)
      .catch((): TaskEnd => 'ended')
      .then((end) => {
        this.table.delete(key);
        this.onEnd(task, end);
      });
    this.table.set(key, { task, controller, ended });
  }

  cancel(task: RunningTask): void {
    this.table.get(keyOf(task))?.controller.abort();
  }

  async cancelAll(): Promise<void> {
    const entries = [...this.table.values()];
    for (const entry of entries) entry.controller.abort();
    await Promise.allSettled(entries.map((entry) => entry.ended));
  }
}

/** Pause before a medium is read again after a failure; doubled each time. */
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 30_000;
/** While the node's own disk can't be written, so that work continues soon after. */
const DISK_PAUSE_MAX_MS = 5_000;

/** One job for each medium, so that a slow or bad stick delays nothing else. */
export class MediaJobs {
  private readonly ending = new AbortController();
  private readonly jobs = new Map<MediumId, Promise<void>>();
  private readonly faults = new Map<MediumId, { reason: Fault; count: number }>();

  /** @param onEnd called after each end, and after each failure */
  constructor(
    private readonly clock: Clock,
    private readonly onEnd: () => void,
  ) {}

  busy(): ReadonlySet<MediumId> {
    return new Set(this.jobs.keys());
  }

  /** Why a job failed whose medium waits for another try. */
  obstacle(): Fault | undefined {
    // A failure of a medium that was unplugged no longer counts.
    return [...this.faults].find(([mediumId]) => this.jobs.has(mediumId))?.[1].reason;
  }

  /** Starts `work` unless the medium is busy. `onFail` reports the error and returns its reason. */
  start(mediumId: MediumId, work: (signal: AbortSignal) => Promise<void>, onFail: (error: unknown) => Fault): void {
    if (this.jobs.has(mediumId) || this.ending.signal.aborted) return;
    const ended = this.run(mediumId, work, onFail).finally(() => {
      this.jobs.delete(mediumId);
      this.onEnd();
    });
    this.jobs.set(mediumId, ended);
  }

  async stop(): Promise<void> {
    this.ending.abort();
    await Promise.allSettled(this.jobs.values());
  }

  private async run(
    mediumId: MediumId,
    work: (signal: AbortSignal) => Promise<void>,
    onFail: (error: unknown) => Fault,
  ): Promise<void> {
    const { signal } = this.ending;
    try {
      await work(signal);
      this.faults.delete(mediumId);
    } catch (error) {
      if (signal.aborted) return;
      const count = (this.faults.get(mediumId)?.count ?? 0) + 1;
      const reason = onFail(error);
      this.faults.set(mediumId, { reason, count });
      this.onEnd();
      const longestMs = isDiskTrouble(reason) ? DISK_PAUSE_MAX_MS : PAUSE_MAX_MS;
      const pauseMs = Math.min(longestMs, PAUSE_MS * 2 ** Math.min(10, count - 1));
      await this.clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }
}
