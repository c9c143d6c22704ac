import type { PinsRequested } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import type { MirrorsPort, PinsPort } from '../../ports/runtime.ts';
import type { EffectOf, Executors } from './executor.ts';
import type { MirrorGate } from './mirror-gate.ts';

/** What was asked of the runtime in terms of pins since the daemon started. */
export interface PinRequests {
  /** The last request; undefined before the first. */
  last: PinsRequested | undefined;
  /**
   * References whose pins were asked for in vain. `true` once the image was pulled for it, which is
   * tried once.
   */
  readonly inVain: Map<string, boolean>;
}

/** What {@link pinExecutors} acts on. */
export interface PinEffectDependencies {
  readonly clock: Clock;
  readonly runtime: PinsPort & MirrorsPort;
  readonly pinRequests: PinRequests;
  readonly mirrorGate: Pick<MirrorGate, 'written'>;
}

/** So many requests in a row for the same pins count as in vain. */
const ATTEMPTS_IN_VAIN = 2;

/** Nothing was asked for yet. */
export function createPinRequests(): PinRequests {
  return { last: undefined, inVain: new Map() };
}

/** Writes the pins and mirrors of the runtime. */
export function pinExecutors(deps: PinEffectDependencies): Executors<'apply-pins' | 'apply-mirrors'> {
  return {
    'apply-pins': (effect, _assessment, signal) => applyPins(deps, effect, signal),
    'apply-mirrors': ({ repositories }, _assessment, signal) => {
      // INVARIANT: the gate hears of it first. No pull may pass by what the old mirrors have
      // proved.
      deps.mirrorGate.written(repositories);
      const mirrors = repositories.map((repository) => ({ repository }));
      return deps.runtime.applyMirrors(mirrors, signal);
    },
  };
}

async function applyPins(
  { runtime, clock, pinRequests }: PinEffectDependencies,
  { references, unpinned, force }: EffectOf<'apply-pins'>,
  signal: AbortSignal,
): Promise<void> {
  await runtime.applyPins(references, { force }, signal);
  const { last, inVain } = pinRequests;
  const isSame = last?.unpinned === unpinned && unpinned !== '';
  const attempts = isSame ? (last?.attempts ?? 0) + 1 : 1;
  pinRequests.last = { references, unpinned, attempts, at: clock.now() };
  if (attempts < ATTEMPTS_IN_VAIN) return;
  for (const reference of unpinned.split('\n')) if (!inVain.has(reference)) inVain.set(reference, false);
}

/** References whose pins were asked for in vain and that were not pulled since. */
export function unenforcedPins({ inVain }: PinRequests): readonly string[] {
  return [...inVain].flatMap(([reference, wasPulled]) => (wasPulled ? [] : [reference]));
}

/**
 * All pins hold: a pin that is lost from now on is asked for at once, without the pauses of before.
 */
export function notePinsHeld(requests: PinRequests): void {
  if (requests.last !== undefined) requests.last = { ...requests.last, unpinned: '', attempts: 0 };
}
