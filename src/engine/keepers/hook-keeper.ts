import type { BundleId } from '../../domain/model/digest.ts';
import { hookEnvironment } from '../../domain/release/hooks/hook-environment.ts';
import { ledgerAfter, ledgerWith } from '../../domain/release/hooks/hook-runs.ts';
import { filesFolderOf, hasFiles } from '../../domain/release/hooks/release-folder.ts';
import { hookEvent } from '../../domain/report/events/hook-events.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import {
  type FailedHook,
  type HookFailure,
  type HookLedger,
  type HookMemory,
  type HookRun,
  isSameRun,
  type RunningHook,
} from '../../domain/state/hook.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { HookRunner, HookStore } from '../../ports/hooks.ts';
import type { ReleaseFiles } from '../../ports/release-files.ts';
import type { StateReader } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { createFailureLog, type FailureLog } from '../reporting/failure-log.ts';

/** Pause before a hook that failed is started again; doubled each time. */
const PAUSE_MS = 10_000;
const PAUSE_MAX_MS = 300_000;

/** What {@link createHookKeeper} needs. */
export interface HookKeeperDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StateReader;
  readonly policy: Pick<Policy, 'hooks'>;
  readonly hookRunner: HookRunner;
  readonly hookStore: HookStore;
  readonly releaseFiles: Pick<ReleaseFiles, 'pathOf'>;
  readonly recorder: Pick<EventRecorder, 'tell'>;
  /** As in `EngineDependencies`. Default false. */
  readonly isStateLost?: boolean;
  /** Resolves when what other programs read is written: see `EngineDependencies`. */
  readonly statusSettled?: () => Promise<void>;
  /** Whose attached files lie in each folder. */
  readonly installed: () => ReadonlyMap<string, BundleId>;
  /** Asks for a round. */
  readonly wantRound: () => void;
}

/** Runs hooks beside the rounds, and records which have run. */
export interface HookKeeper {
  /** As it is now, with the conditions of the last round. */
  memory(degraded: HookMemory['degraded']): HookMemory;
  /**
   * Brings the record in line with the settings and the releases. What can't be written is logged
   * once and tried again with the next change. Only an abort throws.
   */
  follow(degraded: HookMemory['degraded'], signal: AbortSignal): Promise<void>;
  /** Starts a hook, unless its unit runs for another event. Its end asks for a round. */
  start(run: HookRun): void;
  /** Stops waiting for hooks, which go on, and resolves when nothing runs here any more. */
  stop(): Promise<void>;
}

interface Keeping extends HookKeeperDependencies {
  readonly ending: AbortController;
  /** By their units. */
  readonly running: Map<string, { readonly run: RunningHook; readonly ended: Promise<void> }>;
  failed: readonly FailedHook[];
  ledger: HookLedger;
  /** The record that is on the disk. */
  written: HookLedger;
  readonly failures: FailureLog;
  saving: Promise<void>;
}

/** A keeper that goes on with what is recorded. INVARIANT: one run of a unit at a time. */
export function createHookKeeper(deps: HookKeeperDependencies): HookKeeper {
  const ledger = deps.hookStore.load();
  const keeping: Keeping = {
    ...deps,
    ending: new AbortController(),
    running: new Map(),
    failed: [],
    ledger,
    written: ledger,
    failures: createFailureLog(deps.log, (reason) => `Which hooks have run could not be recorded: ${reason}`),
    saving: Promise.resolve(),
  };
  return {
    memory: (degraded) => ({
      running: [...keeping.running.values()].map(({ run }) => run),
      failed: keeping.failed,
      ledger: keeping.ledger,
      installed: keeping.installed(),
      degraded,
    }),
    follow: async (degraded, signal) => {
      const { ledger, store, policy, isStateLost } = keeping;
      keeping.ledger = ledgerAfter(ledger, store.load().bundles, degraded, policy, isStateLost);
      await save(keeping, signal);
    },
    start: (run) => start(keeping, run),
    stop: async () => {
      keeping.ending.abort();
      await Promise.all([...keeping.running.values()].map(({ ended }) => ended));
      // A unit that has ended must not be started again after the next start.
      await save(keeping, NEVER_ABORTED);
    },
  };
}

function start(keeping: Keeping, run: HookRun): void {
  const { running, store, clock, ending, wantRound } = keeping;
  const bundle = store.load().bundles.find(({ bundleId }) => bundleId === run.bundleId);
  if (running.has(run.unit) || bundle === undefined || ending.signal.aborted) return;
  const ended = runUnit(keeping, run, bundle).finally(() => {
    running.delete(run.unit);
    wantRound();
  });
  running.set(run.unit, { run: { ...run, startedAt: clock.now() }, ended });
}

/** Never throws. */
async function runUnit(keeping: Keeping, run: HookRun, bundle: StoredBundle): Promise<void> {
  const { signal } = keeping.ending;
  try {
    const environment = environmentOf(keeping, run, bundle);
    await keeping.statusSettled?.();
    const failure = await keeping.hookRunner.run(run.unit, environment, signal);
    await ended(keeping, run, bundle, failure);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof AppError)) keeping.log.error({ err: error }, `Hook ${run.hook} failed: ${reasonOf(error)}`);
    retryLater(keeping, run, bundle, { kind: 'unasked', message: reasonOf(error) });
  }
}

function environmentOf({ releaseFiles, installed }: Keeping, { hook }: HookRun, bundle: StoredBundle): string {
  const folder = hasFiles(bundle) ? filesFolderOf(bundle, installed()) : undefined;
  const attachments = folder === undefined ? undefined : releaseFiles.pathOf(folder);
  const environment = hookEnvironment({ hook, bundle, attachments });
  if (environment !== undefined) return environment;
  throw new AppError({
    code: 'engine/hook',
    message: `the path ${attachments} has control characters, which systemd does not take; see paths.state_dir`,
    disposition: 'wait',
  });
}

/** The unit has ended. What fails and holds an activation is tried again; the rest is told. */
async function ended(
  keeping: Keeping,
  run: HookRun,
  bundle: StoredBundle,
  why: HookFailure | undefined,
): Promise<void> {
  if (why !== undefined && run.hook === 'before-activate') return retryLater(keeping, run, bundle, why);
  keeping.failed = keeping.failed.filter((one) => !isSameRun(one, run));
  const failure = why && { bundleId: run.bundleId, why, at: keeping.clock.now() };
  keeping.ledger = ledgerWith(keeping.ledger, run, failure);
  keeping.recorder.tell(hookEvent(run, bundle, why, undefined));
  await save(keeping, NEVER_ABORTED);
}

/** The same failure is told the first time, and then each so-many-th. */
const TOLD_EVERY = 10;

function retryLater(keeping: Keeping, run: HookRun, bundle: StoredBundle, why: HookFailure): void {
  const { clock, recorder } = keeping;
  const before = keeping.failed.find((one) => isSameRun(one, run));
  const attempts = (before?.attempts ?? 0) + 1;
  const pauseMs = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(10, attempts - 1));
  const failed: FailedHook = { ...run, why, attempts, retryAt: clock.now() + pauseMs };
  // What failed for an earlier request is not tried again.
  keeping.failed = [...keeping.failed.filter((one) => one.hook !== run.hook || one.bundleId !== run.bundleId), failed];
  const isNew = JSON.stringify(before?.why) !== JSON.stringify(why);
  if (isNew || attempts % TOLD_EVERY === 0) recorder.tell(hookEvent(run, bundle, why, pauseMs));
}

/** One write at a time, each of the record as it is then. */
function save(keeping: Keeping, signal: AbortSignal): Promise<void> {
  keeping.saving = keeping.saving.then(async () => {
    const { ledger } = keeping;
    if (ledger === keeping.written) return;
    try {
      await keeping.hookStore.save(ledger, signal);
      keeping.written = ledger;
      keeping.failures.succeeded();
    } catch (error) {
      if (!signal.aborted) keeping.failures.failed(error);
    }
  });
  return keeping.saving;
}
