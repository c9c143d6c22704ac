import type { Assessment } from '../../domain/assess/assess.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { execute } from '../effects/executor.ts';
import type { Next } from '../tasks/pull-queue.ts';
import type { TaskEnd } from '../tasks/tasks.ts';
import type { Loop } from './loop.ts';
import { underWayMs } from './pace.ts';

/**
 * A failed effect is reported and the others are executed: none depends on another in one decision.
 * INVARIANTS: effects are executed in their order. Each begins when all earlier records are on the
 * disk: after a power cut there must be no effect whose record is lost. A task waits for the
 * records itself, since it must be listed at once so that it can be cancelled.
 * @returns the effects, and why each failed
 * @throws whatever aborted `signal`
 */
export async function act(
  loop: Loop,
  wanted: readonly Effect[],
  assessment: Assessment,
  signal: AbortSignal,
): Promise<ReadonlyMap<Effect, Fault | undefined>> {
  const { context, effects } = loop;
  const executed = new Map<Effect, Fault | undefined>();
  for (const effect of wanted) {
    loop.context.alive();
    try {
      if (effect.kind !== 'start') await context.store.settled(signal);
      signal.throwIfAborted();
      await execute(effects.executors, effect, assessment, signal);
      context.afterEffect?.(effect);
      executed.set(effect, undefined);
    } catch (error) {
      signal.throwIfAborted();
      executed.set(effect, context.recorder.recordFailure(effect, assessment, error));
    }
  }
  return executed;
}

/** After a successful pull, the next pulls may start without a round. */
export function followTask(loop: Loop, task: RunningTask, end: TaskEnd): void {
  if (task.kind === 'pull' && end === 'pulled') {
    loop.state.landed.add(task.reference);
    loop.contentChecker.changed(task.reference);
    goOn(loop, loop.queue.after(task.reference));
  } else loop.context.wantRound();
}

/** A round is scheduled soon to observe the results. */
export function goOn(loop: Loop, { starts, needsRound }: Next): void {
  const { snapshot, lastRound } = loop.state;
  if (needsRound) loop.context.wantRound();
  if (starts.length === 0 || snapshot === undefined) return;
  for (const task of starts) startNow(loop, task, snapshot.assessment);
  loop.wake.kickAt(lastRound.at + underWayMs(lastRound.observedMs));
}

function startNow(loop: Loop, task: RunningTask, assessment: Assessment): void {
  if (loop.state.stopping.aborted) return;
  loop.context.alive();
  const effect: Effect = { kind: 'start', task };
  try {
    loop.effects.start(task, assessment);
    loop.context.afterEffect?.(effect);
  } catch (error) {
    loop.context.recorder.recordFailure(effect, assessment, error);
  }
}
