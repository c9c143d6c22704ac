import { parseReference } from '../../domain/model/reference.ts';
import { activationKey, type PullTest, pullToCheck } from '../../domain/release/pulls/pull-check.ts';
import type { PullCheck, PullCheckEnd, PullChecks } from '../../domain/state/pull-check.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted, withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { isRuntimeAway, type ProbeEnd, probeMirror } from '../tasks/mirror-probe.ts';

/** The adapters of {@link createPullChecker}. */
export interface PullCheckerDependencies {
  readonly clock: Clock;
  /** The releases that are trusted now. */
  readonly releases: () => readonly StoredBundle[];
  readonly runtime: Pick<RuntimePort, 'observe' | 'image' | 'pull'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests' | 'manifestsSent'>;
  /** Called when a test pull asked our registry for an image of this repository. */
  readonly onAsked?: (repository: string) => void;
  /** Asks for a round. */
  readonly wantRound: () => void;
}

/**
 * Tests whether pulls are answered: it lets the runtime pull an image that is present, by its
 * digest. That changes no image, no tag and no pin, and transfers no layer.
 */
export interface PullChecker {
  checks(): PullChecks;
  /**
   * The runtime pulled this image, which it had, from a mirror of its own repository, and our
   * registry sent the manifest. `reference`: by digest. It stands for a test of this image that is
   * due soon.
   */
  answered(reference: string): void;
  /** Starts a test beside the rounds, unless one runs. Its end asks for a round. Never throws. */
  start(test: PullTest): void;
  /**
   * Makes a test now, or waits for the one that runs. Without an image to be tested it does
   * nothing.
   * @throws whatever aborted `signal`, errors of the runtime
   */
  checkNow(signal: AbortSignal): Promise<void>;
  /**
   * Starts no more tests. A running one gets a second to end: on some runtimes a pull takes the pin
   * away until its end, and one that is aborted may do so afterwards.
   */
  stop(): Promise<void>;
}

/** How long a test pull may take. A pull of a present image takes less than a second. */
const PULL_MS = 8_000;

/** How long a test may go on after a stop was asked for. */
const LAST_MS = 1_000;

/**
 * How long another pull stands for a test: an activation records much, and other pulls may follow.
 */
const ANSWERED_MS = 60_000;

interface Checking extends PullCheckerDependencies {
  readonly ending: AbortController;
  isStopped: boolean;
  /** When other pulls of images were answered, by reference. Monotonic milliseconds. */
  readonly answered: Map<string, number>;
  running: Promise<void> | undefined;
  last: PullCheck | undefined;
}

/** A checker that has tested nothing yet. INVARIANT: one test at a time. */
export function createPullChecker(deps: PullCheckerDependencies): PullChecker {
  const checking: Checking = {
    ...deps,
    ending: new AbortController(),
    isStopped: false,
    answered: new Map(),
    running: undefined,
    last: undefined,
  };
  return {
    checks: () => ({ isRunning: checking.running !== undefined, last: checking.last }),
    answered: (reference) => void checking.answered.set(reference, checking.clock.monotonic()),
    start: (test) => {
      if (!takeAnswered(checking, test)) void start(checking, test);
    },
    checkNow: (signal) => checkNow(checking, signal),
    stop: () => stop(checking),
  };
}

async function stop(checking: Checking): Promise<void> {
  checking.isStopped = true;
  const { running, clock, ending } = checking;
  if (running === undefined) return;
  const over = new AbortController();
  const lastMoment = clock.sleep(LAST_MS, over.signal).catch(() => undefined);
  await Promise.race([running, lastMoment]);
  over.abort();
  ending.abort();
  await running;
}

async function checkNow(checking: Checking, signal: AbortSignal): Promise<void> {
  if (checking.running !== undefined) return untilAborted(checking.running, signal);
  const runtime = await checking.runtime.observe(signal);
  if (runtime.kind !== 'reachable') return;
  const bundles = checking.releases();
  const subject = pullToCheck(bundles, runtime);
  if (subject.kind !== 'image') return;
  const attempts = checking.last?.attempts ?? 0;
  await untilAborted(start(checking, { ...subject, activation: activationKey(bundles), attempts }), signal);
}

/** Whether another pull of this image stands for the test. It does so once. */
function takeAnswered(checking: Checking, { reference, activation, attempts }: PullTest): boolean {
  const { clock, wantRound } = checking;
  const at = checking.answered.get(reference);
  if (at === undefined || clock.monotonic() - at > ANSWERED_MS || checking.running !== undefined) return false;
  checking.answered.clear();
  checking.last = { activation, reference, attempts, at: clock.now(), end: { kind: 'answered' } };
  wantRound();
  return true;
}

/** Resolves when the test, or the one that runs, has ended. Never throws. */
function start(checking: Checking, test: PullTest): Promise<void> {
  const { clock, wantRound } = checking;
  // What was seen before a test says less than the test.
  checking.answered.clear();
  if (checking.running !== undefined) return checking.running;
  if (checking.isStopped) return Promise.resolve();
  const running = testPull(checking, test.reference)
    .then((end) => {
      const { activation, reference, attempts } = test;
      checking.last = { activation, reference, attempts, at: clock.now(), end };
    })
    .catch(() => undefined) // it was stopped
    .finally(() => {
      checking.running = undefined;
      wantRound();
    });
  checking.running = running;
  return running;
}

/** @throws whatever ended the checker */
async function testPull(
  { ending, clock, runtime, meter, onAsked }: Checking,
  reference: string,
): Promise<PullCheckEnd> {
  const { repository, digest } = parseReference(reference);
  const deadline = new AbortController();
  const isTimedOut = () => deadline.signal.aborted;
  const over = new AbortController();
  const timer = clock.sleep(PULL_MS, over.signal).then(() => deadline.abort());
  timer.catch(() => undefined);
  return withEither([ending.signal, deadline.signal], async (signal) => {
    try {
      // An image that is gone would be pulled in full.
      if (digest === undefined || (await runtime.image(reference, signal)) === undefined) return { kind: 'image-gone' };
      const probe = await untilAborted(probeMirror(repository, digest, { runtime, meter }, signal), signal);
      if (probe.isAsked) onAsked?.(repository);
      if (probe.failure === undefined) return pulledEnd(probe);
      ending.signal.throwIfAborted();
      if (isTimedOut()) return { kind: 'timed-out', afterMs: PULL_MS };
      const reason = faultOf(probe.failure);
      return isRuntimeAway(probe)
        ? { kind: 'runtime-away', reason }
        : { kind: 'failed', reason, isAsked: probe.isAsked, isSent: probe.isSent };
    } catch (error) {
      ending.signal.throwIfAborted();
      if (isTimedOut()) return { kind: 'timed-out', afterMs: PULL_MS };
      return { kind: 'runtime-away', reason: faultOf(error) };
    } finally {
      over.abort();
    }
  });
}

/** A pull that succeeded shows that we answered it only if we sent the manifest. */
function pulledEnd({ isAsked, isSent }: ProbeEnd): PullCheckEnd {
  if (isSent) return { kind: 'answered' };
  return { kind: isAsked ? 'not-sent' : 'not-asked' };
}

function faultOf(error: unknown) {
  return { code: error instanceof AppError ? error.code : 'runtime/pull-failed', message: reasonOf(error) };
}
