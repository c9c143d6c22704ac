import { afterPull, type PullQueue } from '../../domain/preload/pull-schedule.ts';
import type { RunningTask } from '../../domain/state/memory.ts';

export interface Next {
  readonly starts: readonly RunningTask[];
  readonly needsRound: boolean;
}

const LATER: Next = { starts: [], needsRound: false };
const ROUND: Next = { starts: [], needsRound: true };

/** Pulls that start without a round, which takes long for a release with a thousand images. */
export class RunningQueue {
  private pullQueue: PullQueue | undefined;
  /** Pulls that ended since a round began. Undefined between rounds, and after `stop()`. */
  private ended: string[] | undefined;

  /** Call when a round begins. No pull starts until it has decided. */
  begin(): void {
    this.pullQueue = undefined;
    this.ended = [];
  }

  /** Call when a round is requested: no pull starts now or after the current round. */
  stop(): void {
    this.pullQueue = undefined;
    this.ended = undefined;
  }

  /** Returns what starts after the pulls that ended meanwhile. */
  decided(next: PullQueue | undefined): Next {
    const missed = this.ended;
    this.ended = undefined;
    if (missed === undefined) return LATER;
    this.pullQueue = next;
    const starts = missed.flatMap((reference) => this.after(reference).starts);
    return { starts, needsRound: missed.length > 0 && starts.length === 0 };
  }

  after(reference: string): Next {
    if (this.ended !== undefined) {
      this.ended.push(reference);
      return LATER;
    }
    if (this.pullQueue === undefined) return ROUND;
    const next = afterPull(this.pullQueue, reference);
    this.pullQueue = next.pullQueue;
    return { starts: next.starts, needsRound: next.starts.length === 0 };
  }
}
