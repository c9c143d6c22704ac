import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import type { StateReader } from '../../ports/state.ts';

/** The effects of these kinds. */
export type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/**
 * Executes one effect. Executing it twice has the same result.
 *
 * @throws AppError of the adapter; whatever aborted `signal`
 */
type Executor<Kind extends Effect['kind']> = (
  effect: EffectOf<Kind>,
  assessment: Assessment,
  signal: AbortSignal,
) => void | Promise<void>;

/** One executor for each of these kinds of effect. Default all kinds. */
export type Executors<Kinds extends Effect['kind'] = Effect['kind']> = {
  readonly [Kind in Kinds]: Executor<Kind>;
};

/** Executes an effect with the executor of its kind. @throws as that executor */
export async function execute(
  executors: Executors,
  effect: Effect,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  // TypeScript can't infer that an executor takes the effects of the kind that is its key.
  const executor = executors[effect.kind] as Executor<Effect['kind']>;
  await executor(effect, assessment, signal);
}

/** The stored bundle with this id. Undefined when it is not adopted. */
export function storedBundle(store: StateReader, bundleId: BundleId): StoredBundle | undefined {
  return store.load().bundles.find((bundle) => bundle.bundleId === bundleId);
}
