import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/disk-trouble.ts';
import type { Clock } from '../../platform/clock.ts';

/**
 * Pause before a medium is looked at again after that failed; doubled each time up to {@link
 * PAUSE_MAX_MS}.
 */
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 30_000;
/**
 * The longest pause while our own disk takes no writes, so that a medium is gone on with soon after
 * there is room.
 */
const DISK_PAUSE_MAX_MS = 5_000;

/**
 * Mounts and reads media beside the loop, so that a stick that is slow or bad holds up nothing
 * else. One job a medium.
 */
export interface MediaJobs {
  /** Media that are being mounted or read, or that wait after that failed. */
  busy(): ReadonlySet<MediumId>;
  /** Why the last job of a medium that is still waited for failed, if one did. */
  obstacle(): Fault | undefined;
  /**
   * Starts `work` unless the medium is busy. `onFail` tells what it threw, and gives the reason.
   * Its end kicks the loop.
   */
  start(mediumId: MediumId, work: (signal: AbortSignal) => Promise<void>, onFail: (error: unknown) => Fault): void;
  /** Aborts all and waits for their ends. */
  stop(): Promise<void>;
}

/** No job runs yet. `onEnd` is called after each end, and after each failure. */
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
    // Of a medium that left nothing is waited for.
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
