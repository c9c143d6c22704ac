import { untilAborted } from '../../platform/async/abort.ts';
import type { EngineContext } from '../context.ts';

/** @throws whatever aborted `signal`, and its own errors */
type Work = (signal: AbortSignal) => Promise<void>;

/** Work beside the rounds: one run at a time. The end of each run requests a round. */
export class Job {
  private readonly ending = new AbortController();
  private run: { readonly controller: AbortController; readonly ended: Promise<void> } | undefined;

  constructor(private readonly context: Pick<EngineContext, 'clock' | 'wantRound'>) {}

  get isRunning(): boolean {
    return this.run !== undefined;
  }

  get isStopped(): boolean {
    return this.ending.signal.aborted;
  }

  /** Or joins the current run. @throws the error of `work`; an abort when the job was stopped */
  async start(work: Work): Promise<void> {
    this.ending.signal.throwIfAborted();
    if (this.run !== undefined) return this.run.ended;
    const controller = new AbortController();
    const run = Promise.resolve()
      .then(() => work(controller.signal))
      .finally(() => {
        this.run = undefined;
        this.context.wantRound();
      });
    this.run = { controller, ended: run.catch(() => undefined) };
    return run;
  }

  /** After the current run. @throws as `start`; whatever aborted `signal`: the run goes on */
  async startNext(work: Work, signal: AbortSignal): Promise<void> {
    while (this.run !== undefined) await untilAborted(this.run.ended, signal);
    await untilAborted(this.start(work), signal);
  }

  /** Resolves at the end of the current run. @throws whatever aborted `signal` */
  async ended(signal: AbortSignal): Promise<void> {
    if (this.run !== undefined) await untilAborted(this.run.ended, signal);
  }

  abort(): void {
    this.run?.controller.abort();
  }

  /** Starts nothing more. A run has `graceMs` to end, and is aborted then. */
  async stop(graceMs = 0): Promise<void> {
    this.ending.abort();
    const { run } = this;
    if (run === undefined) return;
    if (graceMs > 0) {
      const over = new AbortController();
      await Promise.race([run.ended, this.context.clock.sleep(graceMs, over.signal).catch(() => undefined)]);
      over.abort();
    }
    run.controller.abort();
    await run.ended;
  }
}
