import { rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { consoleKey, consoleText } from '../../domain/report/console-text.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';

/** What `agetty --reload` touches: each agetty(8) watches it and prints its issue files again. */
export const AGETTY_RELOAD = '/run/agetty.reload';

const STEP_PERCENT = 10;
/** How often a text is written in which only numbers change. */
const NUMBERS_MS = 60_000;

export interface ConsoleFileOptions {
  readonly runDirectory: string;
  readonly clock: Clock;
  readonly log: Log;
  /** {@link AGETTY_RELOAD} */
  readonly reload: string;
}

/**
 * `stickpin.issue`: what a login prompt shows above itself. It is written at each change and each
 * {@link STEP_PERCENT} of a preload, since a serial console prints it again below. An agetty into
 * which somebody types, or that has started a login, is not disturbed.
 */
export class ConsoleFile {
  private readonly path: string;
  private last = { key: '', shape: '', at: Number.NEGATIVE_INFINITY };
  /** Only numbers are new in it: it is written when {@link NUMBERS_MS} are over. */
  private waiting: { report: StatusReport; readonly stop: AbortController } | undefined;
  private trouble: string | undefined;
  private writing: Promise<void> = Promise.resolve();

  constructor(private readonly options: ConsoleFileOptions) {
    this.path = join(options.runDirectory, 'stickpin.issue');
  }

  /** Called with each report. Never throws; what can't be written is logged once. */
  publish(report: StatusReport): void {
    const key = consoleKey(report, STEP_PERCENT);
    if (key === this.last.key) {
      this.dropWaiting();
      return;
    }
    const { advice } = report;
    const shape = consoleKey(
      { ...report, advice: { ...advice, text: advice.text.replace(/\d+/g, '0') } },
      STEP_PERCENT,
    );
    const at = this.options.clock.monotonic();
    const isOfNumbers = shape === this.last.shape && report.operation !== 'preloading';
    const leftMs = NUMBERS_MS - (at - this.last.at);
    if (isOfNumbers && leftMs > 0) {
      this.wait(report, leftMs);
      return;
    }
    this.dropWaiting();
    this.last = { key, shape, at };
    const text = consoleText(report, STEP_PERCENT);
    this.change(() => replaceFile({ path: this.path, isVolatile: true }, `\n${text}\n`));
  }

  settled(): Promise<void> {
    return this.writing;
  }

  /** A daemon that does not run says nothing. */
  async close(): Promise<void> {
    this.dropWaiting();
    this.change(() => rm(this.path, { force: true }));
    await this.writing;
  }

  private wait(report: StatusReport, ms: number): void {
    if (this.waiting !== undefined) {
      this.waiting.report = report;
      return;
    }
    const waiting = { report, stop: new AbortController() };
    this.waiting = waiting;
    this.options.clock.sleep(ms, waiting.stop.signal).then(
      () => {
        if (this.waiting !== waiting) return;
        this.waiting = undefined;
        this.publish(waiting.report);
      },
      () => undefined,
    );
  }

  private dropWaiting(): void {
    this.waiting?.stop.abort();
    this.waiting = undefined;
  }

  /** One change at a time, in their order. */
  private change(make: () => Promise<unknown>): void {
    this.writing = this.writing.then(async () => {
      try {
        await make();
        await this.touch();
        this.trouble = undefined;
      } catch (error) {
        const reason = `The text for the console can't be written: ${reasonOf(error)}`;
        if (reason !== this.trouble) this.options.log.warn({ err: error }, reason);
        this.trouble = reason;
      }
    });
  }

  /** A machine without agetty has no such file. */
  private async touch(): Promise<void> {
    const now = new Date(this.options.clock.now());
    await utimes(this.options.reload, now, now).catch((error: unknown) => {
      if (systemCodeOf(error) !== 'ENOENT') throw error;
    });
  }
}
