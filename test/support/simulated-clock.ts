import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../src/platform/clock.ts';

interface Sleeper {
  readonly atMs: number;
  readonly order: number;
  readonly end: () => void;
}

/** Time passes only while everything waits for it. */
export class SimulatedClock implements Clock {
  private nowMs = 0;
  private made = 0;
  /** A heap: the next one first. */
  private readonly waiting: Sleeper[] = [];

  /** @param stepMs times are rounded up to its multiples. Default: they are not */
  constructor(private readonly stepMs = 0) {}

  now(): number {
    return this.nowMs;
  }

  monotonic(): number {
    return this.nowMs;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      let isOver = false;
      const end = () => {
        if (isOver) return;
        isOver = true;
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = () => {
        isOver = true;
        reject(signal.reason);
      };
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      this.made += 1;
      const { stepMs } = this;
      const atMs = this.nowMs + Math.max(0, ms);
      this.push({ atMs: stepMs === 0 ? atMs : Math.ceil(atMs / stepMs) * stepMs, order: this.made, end });
    });
  }

  async passUntil(ms: number, isOver: () => boolean = () => false): Promise<void> {
    await turn();
    while (!isOver()) {
      const next = this.waiting[0];
      if (next === undefined || next.atMs > ms) break;
      this.nowMs = Math.max(this.nowMs, next.atMs);
      // All that are due in this moment.
      while (this.waiting[0] !== undefined && this.waiting[0].atMs <= this.nowMs) this.pop().end();
      await turn();
    }
    if (!isOver()) this.nowMs = ms;
  }

  private push(one: Sleeper): void {
    const heap = this.waiting;
    let at = heap.length;
    heap.push(one);
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (isBefore(heap[above] as Sleeper, one)) break;
      heap[at] = heap[above] as Sleeper;
      at = above;
    }
    heap[at] = one;
  }

  private pop(): Sleeper {
    const heap = this.waiting;
    const [first] = heap as [Sleeper];
    const last = heap.pop() as Sleeper;
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1] as Sleeper, heap[below] as Sleeper)) below += 1;
      if (isBefore(last, heap[below] as Sleeper)) break;
      heap[at] = heap[below] as Sleeper;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Sleeper, b: Sleeper): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
