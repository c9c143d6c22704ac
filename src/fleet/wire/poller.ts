import { Backoff } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import { Observable } from '../../platform/subscription.ts';
import type { Watched, WatchOptions } from './client.ts';

/** Long poll in milliseconds. */
const WAIT_MS = 30_000;

/** Between two answers. */
const PAUSE_MS = 200;

/** After failures. */
const PAUSES = { firstMs: 500, longestMs: 15_000 };

/** Follows a document of another process by its entity tag. After a failure it is read anew. */
export abstract class Poller<T> extends Observable {
  private readonly backoff = new Backoff(PAUSES);
  private etag: string | undefined;

  constructor(protected readonly clock: Clock) {
    super();
  }

  protected abstract request(watch: WatchOptions, signal: AbortSignal): Promise<Watched<T> | undefined>;
  /** Undefined: the document has not changed. */
  protected abstract answered(document: T | undefined): void;
  protected abstract failed(error: unknown): void;

  /** Until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let pauseMs = PAUSE_MS;
      try {
        await this.read(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.etag = undefined;
        pauseMs = this.backoff.failed();
        this.failed(error);
      }
      await this.clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  /** @throws as the request */
  protected async read(signal: AbortSignal, watch: WatchOptions = { etag: this.etag, waitMs: WAIT_MS }): Promise<void> {
    const answer = await this.request(watch, signal);
    this.backoff.succeeded();
    if (answer !== undefined) this.etag = answer.etag;
    this.answered(answer?.document);
  }
}
