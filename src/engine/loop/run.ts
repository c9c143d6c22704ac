import { isDigest } from '../../domain/model/digest.ts';
import { pinnedNames } from '../../domain/release/pulls.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted, withEither } from '../../platform/async/abort.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { Loop } from './loop.ts';
import type { Pause } from './pace.ts';
import { round } from './round.ts';

/** Pause after a round that threw. */
const BROKEN_PAUSE_MS = 5_000;

/** How long a caller waits for a round. */
const NEXT_ROUND_MS = 10_000;

/**
 * Makes rounds until `signal` aborts, then cancels all tasks. INVARIANT: one round at a time. Only
 * rounds and their tasks change the runtime, the media and the files.
 */
export async function run(loop: Loop, signal: AbortSignal): Promise<void> {
  const { context, state, wake } = loop;
  state.stopping = signal;
  const wantRound = () => loop.context.wantRound();
  const stopTicking = loop.status.tick();
  const unsubscribe = [
    context.media.onChange(() => {
      loop.status.mediaChanged();
      wantRound();
    }),
    context.runtime.onChange(() => {
      loop.imageUses.forget();
      wantRound();
    }),
    ...(context.fleet === undefined ? [] : [context.fleet.onChange(wantRound)]),
    context.meter.onManifestRequest((path, reference) => followRequest(loop, path, reference)),
  ];
  try {
    while (!signal.aborted) {
      const { atLeastMs, atMostMs } = await safeRound(loop, signal);
      loop.context.alive();
      followRound(loop);
      if (atLeastMs > 0) await context.clock.sleep(atLeastMs, signal).catch(() => undefined);
      if (atMostMs > 0) await wake.wait(atMostMs, signal);
    }
  } finally {
    stopTicking();
    for (const stop of unsubscribe) stop();
    await Promise.all([loop.tasks.cancelAll(), ...loop.background.map((work) => work.stop())]);
  }
}

/** Resolves after a round that begins from now on, or when it takes too long. */
export async function nextRound({ context, state }: Loop, signal: AbortSignal): Promise<void> {
  const over = new Promise<void>((resolve) => {
    state.waiting = [...state.waiting, resolve];
  });
  context.wantRound();
  await withEither([signal, AbortSignal.timeout(NEXT_ROUND_MS)], (either) => untilAborted(over, either)).catch(() =>
    signal.throwIfAborted(),
  );
}

/** An error of a round, a bug or a full disk, must never end the daemon. */
async function safeRound(loop: Loop, signal: AbortSignal): Promise<Pause> {
  const { waiting } = loop.state;
  loop.state.waiting = [];
  try {
    return await round(loop, signal);
  } catch (error) {
    if (signal.aborted) return { atLeastMs: 0, atMostMs: 0 };
    loop.status.logTrouble(`A round failed: ${reasonOf(error)}; it is tried again`, error);
    const isOwn = !(error instanceof AppError && (error.disposition === 'retry' || error.disposition === 'wait'));
    const what = isOwn ? `An error in stickpin itself: ${reasonOf(error)}` : reasonOf(error);
    loop.context.notifier.status(oneLine(`${what}. It is retried automatically.`));
    return { atLeastMs: BROKEN_PAUSE_MS, atMostMs: 0 };
  } finally {
    for (const done of waiting) done();
  }
}

/** The pin is lost at the end of the pull, which takes less than a second of a present image. */
const SETTLED_MS = 2_000;

const namesOf = new WeakMap<Snapshot, ReadonlySet<string>>();

/**
 * Call after each request for a manifest. A pull of a pinned image by others may take its pin away,
 * so a round pins it again soon. One round serves all requests, and one more those shortly before
 * it. What the engine pulls itself is followed by a round anyway.
 * @param path the mirror path of the repository
 * @param reference a digest or a tag
 */
function followRequest(
  { context, state, tasks, pullChecker, wake }: Pick<Loop, 'context' | 'state' | 'tasks' | 'pullChecker' | 'wake'>,
  path: string,
  reference: string,
): void {
  const { snapshot } = state;
  if (snapshot === undefined || tasks.running().length > 0 || pullChecker.checks().isRunning) return;
  const name = `${path}${isDigest(reference) ? '@' : ':'}${reference}`;
  if (!namesIn(snapshot).has(name)) return;
  state.pullsSettledAt = context.clock.monotonic() + SETTLED_MS;
  wake.kickAt(state.pullsSettledAt);
}

/** A round may begin before the newest of these pulls ends: another one follows then. */
function followRound({ state, wake }: Pick<Loop, 'state' | 'wake'>): void {
  if (state.pullsSettledAt > state.lastRound.at) wake.kickAt(state.pullsSettledAt);
}

function namesIn(snapshot: Snapshot): ReadonlySet<string> {
  const known = namesOf.get(snapshot);
  if (known !== undefined) return known;
  const bundles = snapshot.assessment.bundles.map(({ bundle }) => bundle);
  const names = pinnedNames(snapshot.observed.runtime, bundles, snapshot.assessment.tags.afterProof);
  namesOf.set(snapshot, names);
  return names;
}
