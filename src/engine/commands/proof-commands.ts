import { bundleName, bundleTitle } from '../../domain/model/bundle.ts';
import { soakAfter } from '../../domain/release/evidence.ts';
import {
  currentRelease,
  hasBegun,
  isProven,
  isRequested,
  isRetired,
  isRolledBack,
} from '../../domain/release/recorded-phase.ts';
import { type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { authorOf, type CommandContext, findBundle, refuse } from './command-context.ts';

export const proofCommands = { prove };

/**
 * Proves the current release of a stream for a person who knows that it works although its
 * containers can't be seen. INVARIANT: `provenAt` is recorded last.
 * @returns the effect, as a sentence
 * @throws AppError `engine/no-bundle`, `engine/ambiguous`, `engine/not-provable` (`reject`)
 */
function prove(context: CommandContext, { bundle: name }: { readonly bundle: string }): string {
  const { clock, store, node, recorder } = context;
  const { bundles } = store.load();
  const bundle = findBundle(bundles, name);
  requireProvable(bundle, bundles);
  const { bundleId, payload, activatedAt = 0 } = bundle;
  store.setSoak(bundleId, { ...soakAfter(bundle.soak, [], node.boot(), activatedAt), proof: 'hand' });
  const message = `${bundleTitle(payload)} was proven by hand: it is the last known good release now`;
  const at = stampAfter(bundles, clock.now());
  store.mark(bundleId, 'provenAt', { at, kind: 'bundleProven', bundleId, message, ...authorOf(context) });
  recorder.log({ kind: 'bundleProven', level: 'info', bundleId, message });
  return `${message}. Older releases that are needed no longer are retired.`;
}

function requireProvable(bundle: StoredBundle, bundles: readonly StoredBundle[]): void {
  const name = bundleName(bundle.payload);
  const current = currentRelease(bundles, bundle.payload.name);
  if (isRetired(bundle) || bundle.activatedAt === undefined) {
    throw refuse('engine/not-provable', `${name} is not activated, so nobody can know that it works`);
  }
  if (current?.bundleId !== bundle.bundleId) {
    const which = current === undefined ? 'another release' : bundleName(current.payload);
    throw refuse('engine/not-provable', `${name} is not the current release: ${which} was activated after it`);
  }
  if (isRequested(bundle, bundles) || hasBegun(bundle)) {
    const until = 'its new activation is not done yet, and would begin its proof anew';
    throw refuse('engine/not-provable', `${name} can't be proven now: ${until}. Prove it once that is done`);
  }
  if (isRolledBack(bundle)) {
    const again = `'stickpin activate ${name}' activates it again`;
    throw refuse('engine/not-provable', `${name} was rolled back; ${again}, and then it may be proven`);
  }
  if (isProven(bundle)) throw refuse('engine/not-provable', `${name} is proven already`);
}
