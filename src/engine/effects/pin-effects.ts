import type { PinsRequested } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import type { MirrorsPort, PinsPort } from '../../ports/runtime.ts';
import type { EffectOf, Executors } from './executor.ts';
import type { MirrorGate } from './mirror-gate.ts';

/** The pins that were requested from the runtime since the daemon started. */
export interface PinRequests {
  /** The last request. Undefined before the first. */
  last: PinsRequested | undefined;
  /**
   * References whose pins the runtime does not enforce. `true` after the image was pulled again for
   * that reason, which is tried once.
   */
  readonly unenforced: Map<string, boolean>;
}

/** The adapters of {@link pinExecutors}. */
export interface PinEffectDependencies {
  readonly clock: Clock;
  readonly runtime: PinsPort & MirrorsPort;
  readonly pinRequests: PinRequests;
  readonly mirrorGate: Pick<MirrorGate, 'written'>;
}

/** After this many requests in a row with the same missing pins, these count as unenforced. */
const UNENFORCED_ATTEMPTS = 2;

/** Before the first request. */
export function createPinRequests(): PinRequests {
  return { last: undefined, unenforced: new Map() };
}

/** Write the pins and mirrors of the runtime. */
export function pinExecutors(deps: PinEffectDependencies): Executors<'apply-pins' | 'apply-mirrors'> {
  return {
    'apply-pins': (effect, _assessment, signal) => applyPins(deps, effect, signal),
    'apply-mirrors': ({ repositories }, _assessment, signal) => {
      // INVARIANT: the gate is told first. A proof for the old mirrors must not let a pull through.
      deps.mirrorGate.written(repositories);
      const mirrors = repositories.map((repository) => ({ repository }));
      return deps.runtime.applyMirrors(mirrors, signal);
    },
  };
}

async function applyPins(
  { runtime, clock, pinRequests }: PinEffectDependencies,
  { references, unpinned, force, mirrorsFollow = false }: EffectOf<'apply-pins'>,
  signal: AbortSignal,
): Promise<void> {
  await runtime.applyPins(references, { force, mirrorsFollow }, signal);
  const { last, unenforced } = pinRequests;
  const isSame = last?.unpinned === unpinned && unpinned !== '';
  const attempts = isSame ? (last?.attempts ?? 0) + 1 : 1;
  pinRequests.last = { references, unpinned, attempts, at: clock.now() };
  if (attempts < UNENFORCED_ATTEMPTS) return;
  for (const reference of unpinned.split('\n')) if (!unenforced.has(reference)) unenforced.set(reference, false);
}

/** References whose pins the runtime does not enforce and that were not pulled again since. */
export function unenforcedPins({ unenforced }: PinRequests): readonly string[] {
  return [...unenforced].flatMap(([reference, wasPulled]) => (wasPulled ? [] : [reference]));
}

/**
 * Call when all pins are enforced. A pin that is lost later is requested at once, without the
 * earlier pauses.
 */
export function notePinsHeld(requests: PinRequests): void {
  if (requests.last !== undefined) requests.last = { ...requests.last, unpinned: '', attempts: 0 };
}
