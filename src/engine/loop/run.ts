import { AppError, reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { Loop } from './loop.ts';
import type { Pause } from './pace.ts';
import { followRequest, followRound } from './repin.ts';
import { round } from './round.ts';

/** Pause after a round that threw. */
const BROKEN_PAUSE_MS = 5_000;

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
    context.media.onChange(wantRound),
    context.runtime.onChange(wantRound),
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

/** An error of a round, a bug or a full disk, must never end the daemon. */
async function safeRound(loop: Loop, signal: AbortSignal): Promise<Pause> {
  try {
    return await round(loop, signal);
  } catch (error) {
    if (signal.aborted) return { atLeastMs: 0, atMostMs: 0 };
    loop.status.logTrouble(`A round failed: ${reasonOf(error)}; it is tried again`, error);
    const isOwn = !(error instanceof AppError && (error.disposition === 'retry' || error.disposition === 'wait'));
    const what = isOwn ? `An error in stickpin itself: ${reasonOf(error)}` : reasonOf(error);
    loop.context.notifier.status(oneLine(`${what}. It is retried automatically.`));
    return { atLeastMs: BROKEN_PAUSE_MS, atMostMs: 0 };
  }
}
