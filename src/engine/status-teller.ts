import type { Assessment } from '../domain/assess.ts';
import { bundleInWork } from '../domain/focus.ts';
import type { Snapshot } from '../domain/news.ts';
import { bytesDone } from '../domain/progress.ts';
import { reportOf, type StatusReport } from '../domain/report.ts';
import type { Progress } from '../domain/status-line.ts';
import { reasonOf } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import type { Conditions } from './condition-keeper.ts';
import type { Effects } from './effects.ts';
import type { LayerKeeper } from './layer-keeper.ts';
import type { ServiceNotifier, TransferMeter } from './ports.ts';
import { createRateGauge } from './rate.ts';
import type { Tasks } from './tasks.ts';

/** What {@link createStatusTeller} tells of, and whom. */
interface StatusDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: TransferMeter;
  readonly notifier: ServiceNotifier;
  readonly onStatus: (report: StatusReport) => void;
  readonly tasks: Pick<Tasks, 'running'>;
  readonly keeper: Pick<LayerKeeper, 'copyingBytes'>;
  readonly keeping: Effects['keeping'];
  /** What the last round saw and concluded, or undefined before the first. */
  readonly seen: () => (Snapshot & { readonly conditions: Conditions }) | undefined;
}

/** Tells how the node stands, to whoever listens. */
interface StatusTeller {
  /** As the last round left it, with what runs now; undefined before the first round. */
  report(): StatusReport | undefined;
  /** Tells it. Whoever listens must not stop the work, nor the process: this also runs from a timer. */
  publish(): void;
  /** Tells it each second while something runs, until the returned function is called. */
  tick(): () => void;
  /** Logs what is not of the node but of ourselves, the same thing once a minute. */
  tellTrouble(message: string, error: unknown): void;
}

/** How often the STATUS line is made anew while something runs. */
const STATUS_MS = 1_000;
/** How often the same trouble is logged at most. */
const TROUBLE_MS = 60_000;

/** A teller that has told nothing yet. */
export function createStatusTeller(deps: StatusDependencies): StatusTeller {
  const { clock, meter, tasks, keeper } = deps;
  const rate = createRateGauge();
  let lastTrouble = { message: '', at: Number.NEGATIVE_INFINITY };

  function progress(assessment: Assessment): Progress {
    const entry = bundleInWork({ running: tasks.running() }, assessment);
    rate.sample(meter.totalBytes(), clock.monotonic());
    const { doneBytes, totalBytes } =
      entry === undefined ? { doneBytes: 0, totalBytes: 0 } : bytesDone(entry, assessment, meter.sentBytes());
    // Between two pulls nothing runs for a moment; the rate of the preload stays.
    if (entry === undefined) rate.reset();
    return {
      doneBytes,
      totalBytes,
      bytesPerSecond: rate.bytesPerSecond(),
      waitingTransfers: meter.waiting(),
    };
  }

  function report(): StatusReport | undefined {
    const seen = deps.seen();
    if (seen === undefined) return undefined;
    const now = {
      ...seen.observed,
      running: tasks.running(),
      copyingBytes: keeper.copyingBytes(),
      keeping: deps.keeping(),
    };
    return reportOf(now, seen.assessment, progress(seen.assessment), seen.conditions);
  }

  function publish(): void {
    try {
      const current = report();
      if (current === undefined) return;
      deps.notifier.status(current.status);
      deps.onStatus(current);
    } catch (error) {
      tellTrouble(`The status could not be told: ${reasonOf(error)}`, error);
    }
  }

  function tellTrouble(message: string, error: unknown): void {
    const at = clock.monotonic();
    if (message === lastTrouble.message && at - lastTrouble.at < TROUBLE_MS) return;
    lastTrouble = { message, at };
    deps.log.error({ err: error }, message);
  }

  return {
    report,
    publish,
    tellTrouble,
    tick: () => {
      const ticker = setInterval(() => {
        if (tasks.running().length > 0 || deps.keeping().size > 0 || keeper.copyingBytes() !== undefined) publish();
      }, STATUS_MS);
      return () => clearInterval(ticker);
    },
  };
}
