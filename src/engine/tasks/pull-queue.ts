import { afterPull, type PullQueue } from '../../domain/preload/pull-queue.ts';
import type { RunningTask } from '../../domain/state/memory.ts';

/** What comes after a pull that worked. */
export interface Next {
  readonly starts: readonly RunningTask[];
  /** Only a round can tell how to go on. */
  readonly needsRound: boolean;
}

/**
 * The pulls that follow each other between two rounds. A round takes long when a release has a
 * thousand images, and pulls may be short.
 */
export interface RunningQueue {
  /** A round begins to look: nothing follows until it has decided. */
  begin(): void;
  /**
   * Something asks for a round, and it may be a reason against more pulls: nothing follows, neither
   * now nor after the round that is under way.
   */
  stop(): void;
  /**
   * Takes what a round has decided may follow, and tells what does after the pulls that ended
   * meanwhile.
   */
  decided(pullQueue: PullQueue | undefined): Next;
  after(reference: string): Next;
}

const LATER: Next = { starts: [], needsRound: false };
const ROUND: Next = { starts: [], needsRound: true };

/** Nothing follows before the first round. */
export function createRunningQueue(): RunningQueue {
  let pullQueue: PullQueue | undefined;
  /**
   * Pulls that ended since a round began to look; undefined between rounds, and when it will not
   * decide what follows.
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
