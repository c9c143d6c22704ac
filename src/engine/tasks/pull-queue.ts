import { afterPull, type PullQueue } from '../../domain/preload/pull-schedule.ts';
import type { RunningTask } from '../../domain/state/memory.ts';

/** The next step after a successful pull. */
export interface Next {
  readonly starts: readonly RunningTask[];
  /** Only a round can decide the next step. */
  readonly needsRound: boolean;
}

/**
 * The pulls that start one after another between two rounds. A round takes long for a release with
 * a thousand images, and pulls may be short.
 */
export interface RunningQueue {
  /** Call when a round begins to observe. No pull starts until it has decided. */
  begin(): void;
  /**
   * Call when a round is requested. The cause may be a reason not to pull: no pull starts now or
   * after the current round.
   */
  stop(): void;
  /**
   * Takes the queue that a round decided. Returns what starts after the pulls that ended meanwhile.
   */
  decided(pullQueue: PullQueue | undefined): Next;
  after(reference: string): Next;
}

const LATER: Next = { starts: [], needsRound: false };
const ROUND: Next = { starts: [], needsRound: true };

/** Creates an empty queue: no pull starts before the first round. */
export function createRunningQueue(): RunningQueue {
  let pullQueue: PullQueue | undefined;
  /**
   * Pulls that ended since a round began to observe. Undefined between rounds, and after `stop()`.
   */
  let ended: string[] | undefined;

  function after(reference: string): Next {
    if (ended !== undefined) {
      ended.push(reference);
      return LATER;
    }
    if (pullQueue === undefined) return ROUND;
    const next = afterPull(pullQueue, reference);
    pullQueue = next.pullQueue;
    return { starts: next.starts, needsRound: next.starts.length === 0 };
  }

  return {
    begin: () => {
      pullQueue = undefined;
      ended = [];
    },
    stop: () => {
      pullQueue = undefined;
      ended = undefined;
    },
    decided: (next) => {
      const missed = ended;
      ended = undefined;
      if (missed === undefined) return LATER;
      pullQueue = next;
      const following = missed.map(after);
      const starts = following.flatMap((one) => one.starts);
      return { starts, needsRound: missed.length > 0 && starts.length === 0 };
    },
    after,
  };
}
