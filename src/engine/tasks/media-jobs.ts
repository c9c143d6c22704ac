import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import type { Clock } from '../../platform/clock.ts';

/**
 * Pause before a medium is read again after a failure. Doubled each time, up to {@link
 * PAUSE_MAX_MS}.
 */
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 30_000;
/**
 * The longest pause while the node's own disk can't be written, so that work on a medium continues
 * soon after there is space.
 */
const DISK_PAUSE_MAX_MS = 5_000;

/**
 * Mounts and reads media in parallel to the loop, so that a slow or bad stick delays nothing else.
 * One job for each medium.
 */
export interface MediaJobs {
  /** Media that are being mounted or read, or that wait after a failure. */
  busy(): ReadonlySet<MediumId>;
  /** Why a job failed whose medium waits for another try. Undefined when none does. */
  obstacle(): Fault | undefined;
  /**
   * Starts `work` unless the medium is busy. `onFail` reports the error and returns its reason.
   * `onEnd` is called at the end.
   */
  start(mediumId: MediumId, work: (signal: AbortSignal) => Promise<void>, onFail: (error: unknown) => Fault): void;
  /** Aborts all jobs and waits until they have ended. */
  stop(): Promise<void>;
}

/** Creates the table of jobs. `onEnd` is called after each end, and after each failure. */
export function createMediaJobs(clock: Clock, onEnd: () => void): MediaJobs {
  const ending = new AbortController();
  const jobs = new Map<MediumId, Promise<void>>();
  const faults = new Map<MediumId, { reason: Fault; count: number }>();

  async function run(
    mediumId: MediumId,
    work: (signal: AbortSignal) => Promise<void>,
    onFail: (error: unknown) => Fault,
  ): Promise<void> {
    try {
      await work(ending.signal);
      faults.delete(mediumId);
    } catch (error) {
      if (ending.signal.aborted) return;
      const count = (faults.get(mediumId)?.count ?? 0) + 1;
      const reason = onFail(error);
      faults.set(mediumId, { reason, count });
      onEnd();
      const longestMs = isDiskTrouble(reason) ? DISK_PAUSE_MAX_MS : PAUSE_MAX_MS;
      const pauseMs = Math.min(longestMs, PAUSE_MS * 2 ** Math.min(10, count - 1));
      await clock.sleep(pauseMs, ending.signal).catch(() => undefined);
    }
  }

  return {
    busy: () => new Set(jobs.keys()),
    // A failure of a medium that was unplugged no longer counts.
    obstacle: () => [...faults].find(([mediumId]) => jobs.has(mediumId))?.[1].reason,
    start: (mediumId, work, onFail) => {
      if (jobs.has(mediumId) || ending.signal.aborted) return;
      const ended = run(mediumId, work, onFail).finally(() => {
        jobs.delete(mediumId);
        onEnd();
      });
      jobs.set(mediumId, ended);
    },
    stop: async () => {
      ending.abort();
      await Promise.allSettled(jobs.values());
    },
  };
}
