import type { Clock } from '../clock.ts';

/** Calls `ring` once when a time has come. The time may be set anew, as often as one likes. */
export class Alarm {
  private wait = new AbortController();

  constructor(
    private readonly clock: Pick<Clock, 'monotonic' | 'sleep'>,
    private readonly ring: () => void,
  ) {}

  /** @param atMs monotonic, in place of the time before; undefined: it does not ring */
  set(atMs: number | undefined): void {
    this.wait.abort();
    if (atMs === undefined) return;
    this.wait = new AbortController();
    void this.until(atMs, this.wait.signal).then(
      () => this.ring(),
      () => undefined, // only an abort throws
    );
  }

  /** A timer of Node.js may fire up to 1 ms early. */
  private async until(atMs: number, signal: AbortSignal): Promise<void> {
    for (let leftMs = atMs - this.clock.monotonic(); leftMs > 0; leftMs = atMs - this.clock.monotonic()) {
      await this.clock.sleep(leftMs, signal);
    }
    signal.throwIfAborted();
  }
}
