import type { Clock } from '../clock.ts';
import { withEither } from './abort.ts';

/** It is shared: an error for each pause would cost more than the remaining pause. */
const KICKED = new Error('the pause is over');

/** Pauses that an event ends. */
export class Wake {
  private isPending = false;
  private dueAt = Number.POSITIVE_INFINITY;
  private interrupt: AbortController | undefined;

  constructor(private readonly clock: Clock) {}

  /** Ends the current wait, or the next one at once. */
  kick(): void {
    this.isPending = true;
    this.interrupt?.abort(KICKED);
  }

  /** `at`: monotonic milliseconds. */
  kickAt(at: number): void {
    if (at >= this.dueAt) return;
    this.dueAt = at;
    this.interrupt?.abort(KICKED);
  }

  /** Never throws, not even on abort. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    const endAt = this.clock.monotonic() + ms;
    for (;;) {
      const leftMs = Math.min(endAt, this.dueAt) - this.clock.monotonic();
      if (this.isPending || signal.aborted || leftMs <= 0) break;
      await this.sleep(leftMs, signal);
    }
    this.isPending = false;
    this.dueAt = Number.POSITIVE_INFINITY;
  }

  private async sleep(ms: number, signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    this.interrupt = waiting;
    await withEither([signal, waiting.signal], (either) => this.clock.sleep(ms, either)).catch(() => undefined);
    this.interrupt = undefined;
  }
}
