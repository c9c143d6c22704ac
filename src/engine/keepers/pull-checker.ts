import { parseReference } from '../../domain/model/reference.ts';
import { activationKey, type PullTest, pullToCheck } from '../../domain/release/pulls.ts';
import type { PullCheck, PullCheckEnd, PullChecks } from '../../domain/state/checks.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted, withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { MirrorProbes, TransferMeter } from '../../ports/transfers.ts';
import type { Jobs } from '../tasks/jobs.ts';
import { isRuntimeAway, type ProbeEnd, probeMirror } from '../tasks/mirror-gate.ts';

const JOB = 'pull test';

/** A pull of a present image takes less than a second. */
const PULL_MS = 8_000;

/** How long a test may go on at the end of the daemon. */
const LAST_MS = 1_000;

/**
 * How long another pull stands for a test: an activation may have other pulls and records after it.
 */
const ANSWERED_MS = 60_000;

/**
 * Tests whether pulls are answered: the runtime pulls an image that is present, by its digest. That
 * changes no image, no tag and no pin, and transfers no layer. INVARIANT: no pin is ever taken
 * away, since a kill then would leave an image unpinned. Where a pull does that, the runtime pulls
 * a probe from the same repository instead.
 */
export class PullChecker {
  /** Monotonic milliseconds of answered pulls, by reference. */
  private readonly seen = new Map<string, number>();
  private last: PullCheck | undefined;

  /**
   * @param releases that are trusted now
   * @param arePinsLost whether a pull of a pinned image takes its pin away
   * @param onRequested called when a test requested an image of this repository from our registry
   */
  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly runtime: RuntimePort,
    private readonly meter: TransferMeter,
    private readonly probes: MirrorProbes,
    private readonly wantRound: () => void,
    private readonly releases: () => readonly StoredBundle[],
    private readonly arePinsLost: () => boolean = () => false,
    private readonly onRequested: (repository: string) => void = () => undefined,
  ) {}

  checks(): PullChecks {
    return { isRunning: this.jobs.isRunning(JOB), last: this.last };
  }

  /** The runtime pulled by digest what it had, and our registry sent the manifest. */
  answered(reference: string): void {
    this.seen.set(reference, this.clock.monotonic());
  }

  start(test: PullTest): void {
    if (!this.takeAnswered(test)) this.run(test).catch(() => undefined); // the jobs were stopped
  }

  /** Waits for a running test. @throws whatever aborted `signal`, errors of the runtime */
  async checkNow(signal: AbortSignal): Promise<void> {
    const { jobs } = this;
    if (jobs.isRunning(JOB)) return jobs.ended(JOB, signal);
    const runtime = await this.runtime.observe(signal);
    if (runtime.kind !== 'reachable') return;
    const bundles = this.releases();
    const subject = pullToCheck(bundles, runtime);
    if (subject.kind !== 'image') return;
    const attempts = this.last?.attempts ?? 0;
    await untilAborted(this.run({ ...subject, activation: activationKey(bundles), attempts }), signal);
  }

  /** A pull stands for one test only. */
  private takeAnswered({ reference, activation, attempts }: PullTest): boolean {
    const { clock, jobs, wantRound } = this;
    const at = this.seen.get(reference);
    if (at === undefined || clock.monotonic() - at > ANSWERED_MS || jobs.isRunning(JOB)) return false;
    this.seen.clear();
    this.last = { activation, reference, attempts, at: clock.now(), end: { kind: 'answered' } };
    wantRound();
    return true;
  }

  /** Joins a running test. */
  private run({ activation, reference, attempts }: PullTest): Promise<void> {
    // The test is newer.
    this.seen.clear();
    const work = async (signal: AbortSignal) => {
      const end = await this.testPull(reference, signal);
      this.last = { activation, reference, attempts, at: this.clock.now(), end };
    };
    return this.jobs.start(JOB, work, LAST_MS);
  }

  /** @throws only what ended the test */
  private async testPull(reference: string, ending: AbortSignal): Promise<PullCheckEnd> {
    const { clock, runtime, meter, probes } = this;
    const { repository, digest } = parseReference(reference);
    const deadline = new AbortController();
    const isTimedOut = () => deadline.signal.aborted;
    const over = new AbortController();
    const timer = clock.sleep(PULL_MS, over.signal).then(() => deadline.abort());
    timer.catch(() => undefined);
    return withEither([ending, deadline.signal], async (signal) => {
      try {
        // An absent image would be pulled in full.
        const image = digest && (await runtime.image(reference, signal));
        if (digest === undefined || image === undefined) return { kind: 'image-gone' };
        const isProbe = image.pinned && this.arePinsLost();
        const pulled = isProbe ? probes.offer(repository, `test ${clock.now()}`) : digest;
        const probing = probeMirror(repository, pulled, { runtime, meter }, signal);
        // The pull of a probe fails, maybe late: another registry may be tried too.
        const probe = isProbe ? await probing : await untilAborted(probing, signal);
        if (probe.isRequested) this.onRequested(repository);
        if (isProbe && probe.isSent) return { kind: 'answered', isProbe };
        if (probe.failure === undefined) return pulledEnd(probe);
        ending.throwIfAborted();
        if (isTimedOut()) return { kind: 'timed-out', afterMs: PULL_MS };
        const reason = faultOf(probe.failure);
        return isRuntimeAway(probe)
          ? { kind: 'runtime-away', reason }
          : { kind: 'failed', reason, isAsked: probe.isRequested, isSent: probe.isSent };
      } catch (error) {
        ending.throwIfAborted();
        if (isTimedOut()) return { kind: 'timed-out', afterMs: PULL_MS };
        return { kind: 'runtime-away', reason: faultOf(error) };
      } finally {
        over.abort();
      }
    });
  }
}

/** A successful pull may be from another source: only a sent manifest shows that we answered. */
function pulledEnd({ isRequested, isSent }: ProbeEnd): PullCheckEnd {
  if (isSent) return { kind: 'answered' };
  return { kind: isRequested ? 'not-sent' : 'not-asked' };
}

function faultOf(error: unknown) {
  return { code: error instanceof AppError ? error.code : 'runtime/pull-failed', message: reasonOf(error) };
}
