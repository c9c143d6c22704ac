import type { CheckDue } from '../../domain/decide/content.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { ImageContent } from '../../domain/model/image/image-content.ts';
import type { RuntimeObservation } from '../../domain/model/image/runtime-image.ts';
import { type ImageToCheck, imagesToCheck } from '../../domain/release/content/images-to-check.ts';
import { checkedEvent } from '../../domain/report/events/content-events.ts';
import type { CheckCause, ContentChecks, ContentResult, RunningCheck } from '../../domain/state/content-check.ts';
import { latestStamp } from '../../domain/state/stamp.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { DocumentStore } from '../../ports/blobs.ts';
import type { BootMark, ContentPort } from '../../ports/image-content.ts';
import type { StateReader } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { lookAt } from './image-look.ts';

/** The adapters of {@link createContentChecker}. */
export interface ContentCheckerDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StateReader;
  readonly documents: Pick<DocumentStore, 'sizeOf' | 'read'>;
  readonly content: ContentPort;
  /** Default: it is forgotten when the daemon ends. */
  readonly bootMark?: BootMark;
  readonly recorder: Pick<EventRecorder, 'tell'>;
  readonly tasks: Pick<Tasks, 'running'>;
  /** Asks for a round. */
  readonly wantRound: () => void;
}

/**
 * Checks the content of images beside the rounds. It reads and changes nothing.
 *
 * INVARIANTS: one check at a time, one image at a time. A check that nobody asked for waits while
 * something is pulled or activated, unless a person waits for its end or an activation has waited
 * for {@link OVERDUE_MS}.
 */
export interface ContentChecker {
  checks(): ContentChecks;
  /** Starts a check beside the rounds, unless one runs. Its end asks for a round. Never throws. */
  start(due: CheckDue): void;
  /**
   * Checks all images of kept releases, or those of one release, after a check that runs.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room when the runtime does not
   *   answer; whatever aborted `signal` (the check goes on)
   */
  checkNow(only: BundleId | undefined, signal: AbortSignal): Promise<void>;
  /** Call before a damaged image is removed. */
  healing(reference: string): void;
  /**
   * Call when a damaged image was removed: what was found of it counts no longer, and it is checked
   * again once it is back.
   */
  removed(reference: string): void;
  /**
   * Call when an image was pulled: what was found of it counts no longer. One that was damaged is
   * checked again.
   */
  changed(reference: string): void;
  /** Forgets what was found of images that the runtime does not list any more. */
  saw(runtime: RuntimeObservation): void;
  /** Ends the running check. */
  stop(): Promise<void>;
}

/** An activation waits for a check no longer once so many have failed in a row. */
const AWAITED_FAILURES = 3;
/** How long a check that an activation waits for gives way to pulls. */
const OVERDUE_MS = 10 * 60_000;
/** Pause before a check that has met a runtime that did not answer is started again. */
const AGAIN_MS = 60_000;
/**
 * How long a check that nobody asked for waits before it looks again whether the node is at rest.
 */
const REST_MS = 1_000;

interface Checking extends ContentCheckerDependencies {
  readonly bootMark: BootMark;
  readonly ending: AbortController;
  readonly results: Map<string, ContentResult>;
  readonly healed: Set<string>;
  readonly healings: Map<string, number>;
  running: { readonly ended: Promise<void>; state: RunningCheck } | undefined;
  /** Undefined until it is asked for. */
  isAwaited: boolean | undefined;
  /** Since when an activation may wait for a check. Monotonic milliseconds. */
  neededSince: number | undefined;
  /** How many checks that were due have failed in a row. */
  failures: number;
  endedAt: number | undefined;
  /** How many callers wait for the end of a check that runs. */
  waiting: number;
  /** Monotonic milliseconds. */
  failedAt: number;
}

/** A check that is to be made. */
interface Order {
  readonly cause: CheckCause;
  readonly images: readonly ImageToCheck[];
}

/** A checker that has checked nothing yet. */
export function createContentChecker(deps: ContentCheckerDependencies): ContentChecker {
  const checking: Checking = {
    ...deps,
    bootMark: deps.bootMark ?? createForgetfulMark(),
    ending: new AbortController(),
    results: new Map(),
    healed: new Set(),
    healings: new Map(),
    running: undefined,
    isAwaited: undefined,
    neededSince: undefined,
    failures: 0,
    endedAt: undefined,
    waiting: 0,
    failedAt: Number.NEGATIVE_INFINITY,
  };
  return {
    checks: () => checksOf(checking),
    start: (due) => startDue(checking, due),
    checkNow: (only, signal) => checkNow(checking, only, signal),
    healing: (reference) => {
      checking.healings.set(reference, (checking.healings.get(reference) ?? 0) + 1);
    },
    removed: (reference) => {
      checking.results.delete(reference);
      checking.healed.add(reference);
    },
    changed: (reference) => {
      checking.results.delete(reference);
      if (checking.healings.has(reference)) checking.healed.add(reference);
    },
    saw: (runtime) => forgetGone(checking, runtime),
    stop: async () => {
      checking.ending.abort();
      await checking.running?.ended;
    },
  };
}

/** Remembers until the daemon ends, as in a rehearsal. */
function createForgetfulMark(): BootMark {
  let isCheckDue = false;
  return {
    isCheckDue: () => isCheckDue,
    setCheckDue: async (isDue) => {
      isCheckDue = isDue;
    },
  };
}

function checksOf(checking: Checking): ContentChecks {
  const { running, bootMark, endedAt, results, healed, healings } = checking;
  checking.isAwaited ??= bootMark.isCheckDue();
  return {
    running: running?.state,
    isDue: bootMark.isCheckDue(),
    isAwaited: checking.isAwaited,
    isOverdue: isOverdue(checking),
    endedAt,
    results: new Map(results),
    healed: [...healed],
    healings: new Map(healings),
  };
}

function isOverdue(checking: Checking): boolean {
  const now = checking.clock.monotonic();
  const isNeeded = checking.isAwaited === true || checking.healed.size > 0;
  checking.neededSince = isNeeded ? (checking.neededSince ?? now) : undefined;
  return checking.neededSince !== undefined && now - checking.neededSince >= OVERDUE_MS;
}

function startDue(checking: Checking, { cause, references }: CheckDue): void {
  const { clock, store, ending, failedAt } = checking;
  if (checking.running !== undefined || ending.signal.aborted || clock.monotonic() - failedAt < AGAIN_MS) return;
  const all = imagesToCheck(store.load().bundles);
  const images = references === undefined ? all : all.filter(({ reference }) => references.includes(reference));
  // What belongs to no kept release any more is not checked again.
  const kept = new Set(all.map(({ reference }) => reference));
  for (const reference of checking.healed) if (!kept.has(reference)) checking.healed.delete(reference);
  run(checking, { cause, images }).catch((error: unknown) => {
    if (ending.signal.aborted) return;
    checking.failures += 1;
    if (checking.failures >= AWAITED_FAILURES) awaitNoLonger(checking);
    checking.failedAt = clock.monotonic();
    checking.log.warn(
      { err: error },
      `The content of images could not be checked: ${reasonOf(error)}; it is tried again`,
    );
  });
}

/** The check stays due over a restart of the daemon. */
function awaitNoLonger(checking: Checking): void {
  checking.isAwaited = false;
  checking.healed.clear();
}

async function checkNow(checking: Checking, only: BundleId | undefined, signal: AbortSignal): Promise<void> {
  checking.waiting += 1;
  try {
    while (checking.running !== undefined) await untilAborted(checking.running.ended, signal);
  } finally {
    checking.waiting -= 1;
  }
  checking.ending.signal.throwIfAborted();
  const images = imagesToCheck(checking.store.load().bundles, only);
  for (const { reference } of images) checking.healings.delete(reference);
  await untilAborted(run(checking, { cause: 'request', images }), signal);
}

/** @throws AppError when the runtime does not answer; whatever ended the checker */
function run(checking: Checking, order: Order): Promise<void> {
  const state: RunningCheck = { cause: order.cause, done: 0, total: order.images.length, readBytes: 0 };
  const work = checkAll(checking, order).finally(() => {
    checking.running = undefined;
    checking.wantRound();
  });
  checking.running = { state, ended: work.catch(() => undefined) };
  return work;
}

async function checkAll(checking: Checking, { cause, images }: Order): Promise<void> {
  const { ending, content, clock, bootMark, recorder, results, documents } = checking;
  await Promise.resolve(); // `running` is set first
  const check = content.openContentCheck();
  // What is adopted while the check runs is pulled after the boot.
  const coversAll = images.length === imagesToCheck(checking.store.load().bundles).length;
  const found: ContentResult[] = [];
  const onBytes = (bytes: number) => advance(checking, { bytes });
  for (const image of images) {
    if (cause !== 'request') await untilAtRest(checking);
    const seen = await lookAt(image, { check, documents, onBytes }, ending.signal);
    const result = { at: clock.now(), content: seen, ...sinceWhen(checking, image.reference, seen) };
    found.push(result);
    results.set(image.reference, result);
    checking.healed.delete(image.reference);
    if (seen.kind === 'whole') checking.healings.delete(image.reference);
    advance(checking, { images: 1 });
  }
  checking.failures = 0;
  if (cause === 'unclean-boot') checking.endedAt = clock.now();
  if (cause !== 'again' && coversAll) checking.isAwaited = false;
  if (isNews(cause, found)) recorder.tell(checkedEvent(cause, found));
  await bootMark.setCheckDue(isCheckDue(checking, found), ending.signal);
}

/** What earlier looks at an image add to what is seen of it now. */
function sinceWhen(
  { results, store }: Checking,
  reference: string,
  { kind }: ImageContent,
): Pick<ContentResult, 'unknownLooks' | 'brokenSince'> {
  const { unknownLooks = 0, brokenSince } = results.get(reference) ?? {};
  if (kind === 'unknown') return { unknownLooks: unknownLooks + 1 };
  return kind === 'broken' ? { brokenSince: brokenSince ?? latestStamp(store.load().bundles) } : {};
}

/** That images are still not known was told when it was found. */
function isNews(cause: CheckCause, found: readonly ContentResult[]): boolean {
  return cause === 'again' ? found.some(({ content }) => content.kind !== 'unknown') : found.length > 0;
}

/**
 * A restart of the daemon must find damage again, so a check stays due while there is any.
 * Otherwise it is done when all images are known to be whole.
 */
function isCheckDue({ store, results, bootMark }: Checking, found: readonly ContentResult[]): boolean {
  if (found.some(({ content }) => isDamaged(content))) return true;
  if (!bootMark.isCheckDue()) return false;
  return imagesToCheck(store.load().bundles).some(({ reference }) => {
    const content = results.get(reference)?.content;
    return content === undefined || content.kind === 'unknown' || isDamaged(content);
  });
}

function isDamaged(content: ImageContent): boolean {
  return content.kind === 'broken' || (content.kind === 'absent' && content.faults.length > 0);
}

async function untilAtRest(checking: Checking): Promise<void> {
  const { tasks, clock, ending } = checking;
  while (tasks.running().length > 0 && checking.waiting === 0 && !isOverdue(checking))
    await clock.sleep(REST_MS, ending.signal);
}

function advance({ running }: Checking, { bytes = 0, images = 0 }: { bytes?: number; images?: number }): void {
  if (running === undefined) return;
  const { done, readBytes } = running.state;
  running.state = { ...running.state, done: done + images, readBytes: readBytes + bytes };
}

/** A damaged image may have been removed and pulled by others. */
function forgetGone({ results }: Checking, runtime: RuntimeObservation): void {
  if (runtime.kind !== 'reachable') return;
  const listed = new Set(runtime.images.flatMap(({ repoDigests }) => repoDigests));
  for (const [reference, { content }] of results) {
    if (content.kind === 'broken' && !listed.has(reference)) results.delete(reference);
  }
}
