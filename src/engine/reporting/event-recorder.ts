import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Effect } from '../../domain/state/effect.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { oneLine, plainText } from '../../platform/plain-text.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';

interface EventRecorderOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<StateStore, 'append'>;
  /** Undefined when the bundle is not adopted. */
  readonly releaseOf?: (bundleId: BundleId) => { readonly version: string; readonly phase: string } | undefined;
}

const REPEAT_MS = 60_000;
const RECORD_AGAIN_MS = 60 * 60_000;

export class EventRecorder {
  private lastFailure = { message: '', at: Number.NEGATIVE_INFINITY };
  private recorded: ReadonlyMap<string, number> = new Map();

  /** @param by the author of all events @param history shared with the recorders of all authors */
  constructor(
    private readonly options: EventRecorderOptions,
    private readonly by?: string,
    private readonly history = { isBroken: false },
  ) {}

  withAuthor(by: string): EventRecorder {
    return new EventRecorder(this.options, by, this.history);
  }

  /** What can't be recorded is logged all the same; never throws. */
  record(event: Event): void {
    this.log(event);
    if (event.isLogOnly !== true) this.append(event);
  }

  /** Makes the row for a transaction that records more; {@link log} the event afterwards. */
  row({ kind, message, bundleId, medium, by = this.by }: Event): EventRow {
    const at = this.options.clock.now();
    return defined({ at, kind, message: oneLine(message), bundleId, medium: medium && plainText(medium), by });
  }

  log({ kind, level, message, bundleId, medium, digest, file, image, code }: Event): void {
    const release = bundleId === undefined ? undefined : this.options.releaseOf?.(bundleId);
    const about = {
      bundleId,
      bundleVersion: release?.version,
      phase: release?.phase,
      medium,
      digest,
      file,
      image,
      code,
    };
    this.options.log[level](defined({ messageId: messageIds[kind], ...about }), message);
  }

  /** Logs an equal failure once a minute, and records it once an hour. */
  recordFailure(effect: Effect, assessment: Assessment, error: unknown): Fault {
    const message = `${doing(effect, assessment)} failed: ${reasonOf(error)}`;
    const reason = { code: error instanceof AppError ? error.code : 'engine/effect', message };
    // The next round finds the medium gone, and reports what follows.
    if (reason.code === 'media/gone') return reason;
    const now = this.options.clock.monotonic();
    if (message === this.lastFailure.message && now - this.lastFailure.at < REPEAT_MS) return reason;
    this.lastFailure = { message, at: now };
    const event = { kind: 'roundFailed', level: 'warn', message, code: reason.code } as const;
    this.log(event);
    this.recorded = new Map([...this.recorded].filter(([, at]) => now - at < RECORD_AGAIN_MS));
    if (this.recorded.has(message)) return reason;
    this.recorded = new Map([...this.recorded, [message, now]]);
    this.append(event);
    return reason;
  }

  private append(event: Event): void {
    const { store, log } = this.options;
    try {
      store.append(this.row(event));
      this.history.isBroken = false;
    } catch (error) {
      // The journal has it; a full disk must not stop the rest.
      if (!this.history.isBroken) log.error({ err: error }, `The history can't be written: ${reasonOf(error)}`);
      this.history.isBroken = true;
    }
  }
}

function titleOf(bundleId: BundleId, adoptions: Assessment['adoptions']): string {
  const bundle = adoptions.find((adoption) => adoption.found.bundle.bundleId === bundleId)?.found.bundle;
  return bundle === undefined ? bundleId : bundleTitle(bundle.payload);
}

/** The begin of a message about an effect that failed. */
const DOING: { readonly [Kind in Effect['kind']]: string } = {
  'mount-medium': 'Mounting',
  'read-medium': 'Reading',
  'keep-documents': 'Keeping the manifests of',
  'adopt-bundle': 'Taking up',
  'apply-pins': 'Rendering the pins',
  'apply-mirrors': 'Rendering the mirrors',
  'record-signers': 'Recording who signed a bundle',
  'record-bad-blobs': 'Recording what is damaged of a bundle',
  'record-ready': 'Recording a bundle as ready',
  'record-media-left': 'Recording which media were taken away',
  'resume-preload': 'Going on with a preload',
  cancel: 'Breaking off a',
  'record-soak': 'Recording how long a release has run',
  'record-active': 'Recording what became of a release',
  'record-proven': 'Recording what became of a release',
  'record-rolled-back': 'Recording what became of a release',
  'request-activation': 'Recording what became of a release',
  'take-over': 'Recording what became of a release',
  retire: 'Retiring a release',
  'remove-images': 'Removing images of a retired release',
  'forget-release': 'Forgetting a retired release',
  'heal-images': 'Removing damaged images',
  'run-hook': 'Starting hook',
  start: 'Starting a',
};

function doing(effect: Effect, { adoptions }: Assessment): string {
  const what = DOING[effect.kind];
  if ('task' in effect) return `${what} ${effect.task.kind}`;
  if ('run' in effect) return `${what} ${effect.run.hook}`;
  if (!('mediumId' in effect)) return what;
  return `${what} ${'bundleId' in effect ? titleOf(effect.bundleId, adoptions) : effect.mediumId}`;
}

export class FailureLog {
  private last: string | undefined;

  /** @param messageOf the line for a reason without full stop */
  constructor(
    private readonly log: Log,
    private readonly messageOf = (reason: string) => `${reason}. It is retried automatically`,
  ) {}

  /** Logs a warning, unless the last failure had the same reason. */
  failed(error: unknown): void {
    const reason = reasonOf(error);
    if (reason !== this.last) this.log.warn({ err: error }, this.messageOf(reason));
    this.last = reason;
  }

  succeeded(): void {
    this.last = undefined;
  }

  /** Runs `work`, and logs its failure. Throws only for an abort. @returns whether it succeeded */
  async run(signal: AbortSignal, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.succeeded();
      return true;
    } catch (error) {
      signal.throwIfAborted();
      this.failed(error);
      return false;
    }
  }
}
