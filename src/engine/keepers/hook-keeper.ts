import type { ConditionStatus } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import {
  filesFolderOf,
  hasFiles,
  hookEnvironment,
  ledgerAfter,
  ledgerToRetry,
  ledgerWith,
  nodeEnvironment,
  nodeLedgerAfter,
  unitRight,
  wantedNodeRuns,
} from '../../domain/release/hooks.ts';
import { hookEvent } from '../../domain/report/events/release-events.ts';
import {
  type FailedHook,
  type HookFailure,
  type HookLedger,
  type HookMemory,
  type HookRun,
  isSameRun,
  keyOf,
  type NodeEvents,
  type ReleaseRun,
  type RunningHook,
  releaseOfRun,
} from '../../domain/state/hook.ts';
import { isWaiting } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import { defined } from '../../platform/defined.ts';
import type { Conditions, Decided, EngineContext, Part } from '../context.ts';
import { FailureLog } from '../reporting/event-recorder.ts';

/** How long a failed hook rests. */
const PAUSES = { firstMs: 10_000, longestMs: 300_000 };

/** An equal failure is reported the first time, and then each so-many-th. */
const REPORTED_EVERY = 10;

/**
 * Runs hooks beside the rounds, and records which have run. INVARIANT: one run of a unit at a time.
 */
export class HookKeeper implements Part {
  /** What runs, by its unit. */
  private readonly running = new Map<string, RunningHook>();
  private failed: readonly FailedHook[] = [];
  private ledger: HookLedger;
  private written: HookLedger;
  private readonly failures: FailureLog;
  private saving: Promise<void> = Promise.resolve();

  /** @param installed whose attached files each folder has */
  constructor(
    private readonly context: EngineContext,
    private readonly installed: () => ReadonlyMap<string, BundleId>,
  ) {
    this.ledger = context.hookStore.load();
    this.written = this.ledger;
    this.failures = new FailureLog(context.log, (reason) => `Which hooks have run could not be recorded: ${reason}`);
  }

  /** @param conditions those of the last round */
  memory(conditions: Conditions): HookMemory {
    const { failed, ledger } = this;
    const running = [...this.running.values()];
    return { running, failed, ledger, installed: this.installed(), degraded: degradedIn(conditions) };
  }

  async reconcile({ observed, conditions }: Decided, signal: AbortSignal): Promise<void> {
    if (observed.facts.keepsOnly === true) return;
    const { store, policy, isStateLost } = this.context;
    this.ledger = ledgerAfter(this.ledger, store.load().bundles, degradedIn(conditions), policy, isStateLost);
    await this.save(signal);
  }

  start(run: ReleaseRun): void {
    const bundle = this.context.store.load().bundles.find(({ bundleId }) => bundleId === run.bundleId);
    if (bundle !== undefined) this.startUnit(run, bundle);
  }

  /** Starts hooks of the node. One whose unit is busy waits; what is over by then is left out. */
  follow(events: NodeEvents): void {
    const { policy, clock } = this.context;
    this.ledger = nodeLedgerAfter(this.ledger, events, policy);
    const wanted = wantedNodeRuns(events, this.ledger, policy);
    const isOver = (run: HookRun) => 'key' in run && events.has(run.hook) && !wanted.some((one) => isSameRun(one, run));
    this.failed = this.failed.filter((run) => !isOver(run));
    const isResting = (run: HookRun) => this.failed.some((one) => isSameRun(one, run) && isWaiting(one, clock.now()));
    for (const run of wanted) if (!isResting(run)) this.startUnit(run, undefined);
  }

  /** Runs failed hooks again, at once. */
  retry(): void {
    const now = this.context.clock.now();
    this.failed = this.failed.map((run) => ({ ...run, retryAt: now }));
    this.ledger = ledgerToRetry(this.ledger);
  }

  private startUnit(run: HookRun, bundle: StoredBundle | undefined): void {
    const { clock, jobs } = this.context;
    const job = jobNameOf(run.unit);
    // A job that ends now requests the round that starts this run.
    if (jobs.isRunning(job) || jobs.areStopped) return;
    this.running.set(run.unit, { ...run, startedAt: clock.now() });
    const work = (signal: AbortSignal) =>
      this.runUnit(run, bundle, signal).finally(() => this.running.delete(run.unit));
    jobs.start(job, work).catch(() => undefined); // it never throws
  }

  /** Stops waiting for hooks, which go on. */
  async stop(): Promise<void> {
    const { jobs } = this.context;
    const stopped = jobs.stop();
    // A unit that has ended must not start again after a restart, whatever else is slow to stop.
    await Promise.all([...this.running.keys()].map((unit) => jobs.ended(jobNameOf(unit), NEVER_ABORTED)));
    await this.save(NEVER_ABORTED);
    await stopped;
  }

  /** Never throws. */
  private async runUnit(run: HookRun, bundle: StoredBundle | undefined, signal: AbortSignal): Promise<void> {
    const { statusSettled, hookRunner, log, policy, trust } = this.context;
    try {
      const right = unitRight(run.unit, bundle, policy, trust.revocations());
      if (right === 'other-stream') return await this.skipped(run);
      if (right === 'not-signed') return await this.ended(run, bundle, { kind: 'not-signed' });
      const environment = this.environmentOf(run, bundle);
      await statusSettled?.();
      await this.ended(run, bundle, await hookRunner.run(run.unit, environment, signal));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof AppError)) log.error({ err: error }, `Hook ${run.hook} failed: ${reasonOf(error)}`);
      this.retryLater(run, bundle, { kind: 'unasked', message: reasonOf(error) });
    }
  }

  private environmentOf(run: HookRun, bundle: StoredBundle | undefined): string {
    const folder = bundle !== undefined && hasFiles(bundle) ? filesFolderOf(bundle, this.installed()) : undefined;
    const attachments = folder === undefined ? undefined : this.context.releaseFiles.pathOf(folder);
    const environment = 'key' in run ? nodeEnvironment(run) : bundle && hookEnvironment(run.hook, bundle, attachments);
    if (environment !== undefined) return environment;
    const [path, setting] = 'key' in run ? [run.medium, 'media.directories'] : [attachments, 'paths.state_dir'];
    throw new AppError({
      code: 'engine/hook',
      message: `the path ${path} has control characters, which systemd does not take; see ${setting}`,
      disposition: 'wait',
    });
  }

  /** The unit is not for the stream of this release: nothing happens, now and later. */
  private async skipped(run: HookRun): Promise<void> {
    this.ledger = ledgerWith(this.ledger, run, this.ledger.get(run.hook)?.failure);
    await this.save(NEVER_ABORTED);
  }

  /** A failure that holds an activation is retried; others are reported. */
  private async ended(run: HookRun, bundle: StoredBundle | undefined, why: HookFailure | undefined): Promise<void> {
    if (why !== undefined && run.hook === 'before-activate') return this.retryLater(run, bundle, why);
    this.failed = this.failed.filter((one) => !isSameRun(one, run));
    const medium = 'key' in run ? run.medium : undefined;
    const failure = why && defined({ bundleId: releaseOfRun(run), medium, why, at: this.context.clock.now() });
    this.ledger = ledgerWith(this.ledger, run, failure);
    this.context.recorder.record(hookEvent(run, bundle, why, undefined));
    await this.save(NEVER_ABORTED);
  }

  private retryLater(run: HookRun, bundle: StoredBundle | undefined, why: HookFailure): void {
    const { clock, recorder } = this.context;
    const before = this.failed.find((one) => isSameRun(one, run));
    const attempts = (before?.attempts ?? 0) + 1;
    const pauseMs = pauseAfter(attempts, PAUSES);
    const failed: FailedHook = { ...run, why, attempts, retryAt: clock.now() + pauseMs };
    // Failures of an earlier request are not retried.
    this.failed = [...this.failed.filter((one) => one.hook !== run.hook || keyOf(one) !== keyOf(run)), failed];
    const isNew = JSON.stringify(before?.why) !== JSON.stringify(why);
    if (isNew || attempts % REPORTED_EVERY === 0) recorder.record(hookEvent(run, bundle, why, pauseMs));
  }

  /** Writes the newest record, one write at a time. */
  private save(signal: AbortSignal): Promise<void> {
    this.saving = this.saving.then(async () => {
      const { ledger } = this;
      if (ledger === this.written) return;
      try {
        await this.context.hookStore.save(ledger, signal);
        this.written = ledger;
        this.failures.succeeded();
      } catch (error) {
        if (!signal.aborted) this.failures.failed(error);
      }
    });
    return this.saving;
  }
}

function degradedIn(conditions: Conditions): HookMemory['degraded'] {
  const statuses = new Map<BundleId, ConditionStatus>();
  for (const [bundleId, all] of conditions) {
    const status = all.find(({ type }) => type === 'Degraded')?.status;
    if (status !== undefined) statuses.set(bundleId, status);
  }
  return statuses;
}

function jobNameOf(unit: string): string {
  return `hook ${unit}`;
}
