import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleInWork } from '../../domain/decide/activation.ts';
import { bytesDone } from '../../domain/report/progress.ts';
import { reportOf, type StatusReport } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Progress } from '../../domain/report/status-line.ts';
import type { Memory } from '../../domain/state/memory.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { ServiceNotifier } from '../../ports/node.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { LayerKeeper } from '../blobs/layer-keeper.ts';
import type { Conditions } from '../keepers/condition-keeper.ts';
import { createRateGauge } from '../reporting/rate.ts';
import type { Tasks } from '../tasks/tasks.ts';

/** What {@link createStatusPublisher} tells of, and whom. */
interface StatusDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: TransferMeter;
  readonly notifier: ServiceNotifier;
  readonly onStatus: (report: StatusReport) => void;
  readonly tasks: Pick<Tasks, 'running'>;
  readonly keeper: Pick<LayerKeeper, 'copyingBytes'>;
  readonly keeping: () => Memory['keeping'];
  readonly media: Pick<MediaPort, 'list'>;
  /** Images that were pulled since the round looked at the runtime. */
  readonly landed: () => readonly string[];
  /** What the last round saw and concluded, or undefined before the first. */
  readonly seen: () => (Snapshot & { readonly conditions: Conditions }) | undefined;
}

/** Tells how the node stands, to whoever listens. */
interface StatusPublisher {
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
/** Without a byte for so long, a runtime that pulls unpacks what it has. */
const QUIET_MS = 2_000;
/** A read error comes some seconds before the news that its stick was pulled. */
const WAITED_MS = 5_000;
/** How often the same trouble is logged at most. */
const TROUBLE_MS = 60_000;

/** A teller that has told nothing yet. */
export function createStatusPublisher(deps: StatusDependencies): StatusPublisher {
  const { clock, meter, tasks, keeper } = deps;
  const rate = createRateGauge();
  let waitingSince: number | undefined;
  /** When bytes moved last, and how many had been sent then. */
  let movedAt = clock.monotonic();
  let movedBytes = 0;
  let lastTrouble = { message: '', at: Number.NEGATIVE_INFINITY };

  function progress(assessment: Assessment): Progress {
    const running = tasks.running();
    const entry = bundleInWork({ running }, assessment);
    const now = clock.monotonic();
    const flow = meter.flow(entry?.bundle.contents.layers.map(({ digest }) => digest) ?? []);
    const isOpen = flow.open > flow.awaitingMedium;
    rate.sample(meter.totalBytes(), now, isOpen);
    // Between two pulls nothing runs for a moment; the rate of the preload stays.
    if (entry === undefined) rate.reset();
    waitingSince = meter.waiting() === 0 ? undefined : (waitingSince ?? now);
    const waitedMs = waitingSince === undefined ? 0 : now - waitingSince;
    const { doneBytes, totalBytes } =
      entry === undefined ? { doneBytes: 0, totalBytes: 0 } : bytesDone(entry, assessment, meter.sentBytes());
    const isPulling = running.some((task) => task.kind === 'pull' && task.online !== true);
    if (!isPulling || isOpen || flow.sentBytes !== movedBytes) movedAt = now;
    movedBytes = flow.sentBytes;
    const isQuiet = isPulling && flow.open === 0 && flow.sentBytes > 0 && now - movedAt >= QUIET_MS;
    return {
      doneBytes,
      totalBytes,
      bytesPerSecond: rate.bytesPerSecond(),
      isUnpacking: isQuiet || (isPulling && flow.open === 0 && totalBytes > 0 && doneBytes >= totalBytes),
      waitingTransfers: waitedMs < WAITED_MS ? 0 : meter.waiting(),
      landedImages: deps.landed(),
    };
  }

  function report(): StatusReport | undefined {
    const seen = deps.seen();
    if (seen === undefined) return undefined;
    const plugged = new Set(deps.media.list().map(({ mediumId }) => mediumId));
    // A stick may be pulled while a round lasts.
    const media = seen.observed.media.filter(({ mediumId }) => plugged.has(mediumId));
    const now: Snapshot = {
      observed: { ...seen.observed, media },
      memory: {
        ...seen.memory,
        running: tasks.running(),
        copyingBytes: keeper.copyingBytes(),
        keeping: deps.keeping(),
      },
      assessment: seen.assessment,
    };
    return reportOf(now, progress(seen.assessment), seen.conditions);
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
