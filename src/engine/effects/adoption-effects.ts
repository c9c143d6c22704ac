import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import type { Kept } from '../../domain/state/memory.ts';
import type { SignedBundles } from '../../ports/signed-bundles.ts';
import type { AdoptionStore, StateReader } from '../../ports/state.ts';
import type { TrustPort } from '../../ports/trust.ts';
import { rotationOf } from '../keepers/rotation.ts';
import { adoptedEvent, rotationEvents, warningEvents } from '../reporting/adoption-events.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Executors } from './executor.ts';
import { type DocumentKeeping, keepDocuments } from './keep-documents.ts';
import { type MediaWork, runInParallel } from './media-effects.ts';

/** Progress of keeping the documents, for each bundle that will be adopted. */
export type KeptDocuments = Map<BundleId, Kept>;

/** The adapters of {@link adoptionExecutors}. */
export interface AdoptionEffectDependencies extends MediaWork, DocumentKeeping {
  readonly store: Pick<AdoptionStore, 'adopt'> & Pick<StateReader, 'load'>;
  readonly policy: Pick<Policy, 'trust'>;
  readonly trust: Pick<TrustPort, 'roles' | 'revocations'>;
  readonly signedBundles: Pick<SignedBundles, 'keep'>;
  readonly recorder: EventRecorder;
  /** Updated while documents are being kept. The next decision reads it. */
  readonly keeping: KeptDocuments;
}

/**
 * Adopts bundles.
 *
 * INVARIANT: `decide()` puts `keep-documents` first. So each bundle in the database has its
 * documents on the node's own disk, as far as a medium had them, and what proves its signature.
 */
export function adoptionExecutors(deps: AdoptionEffectDependencies): Executors<'keep-documents' | 'adopt-bundle'> {
  return {
    'keep-documents': (effect, assessment) =>
      runInParallel(deps, effect, assessment, (signal) => keepForAdoption(deps, effect.bundleId, assessment, signal)),
    'adopt-bundle': ({ bundleId }, assessment) => adopt(deps, bundleId, assessment),
  };
}

async function keepForAdoption(
  deps: AdoptionEffectDependencies,
  bundleId: BundleId,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  const found = adoptionOf(bundleId, assessment)?.found;
  if (found === undefined) return;
  try {
    await deps.signedBundles.keep(bundleId, signal);
    await keepDocuments(found, deps, signal, (kept) => void deps.keeping.set(bundleId, kept));
  } catch (error) {
    deps.keeping.delete(bundleId);
    throw error;
  }
}

/** Records the bundle and the keys that it adds or revokes, in one transaction. */
function adopt(deps: AdoptionEffectDependencies, bundleId: BundleId, assessment: Assessment): void {
  const adoption = adoptionOf(bundleId, assessment);
  if (adoption === undefined) return;
  const { bundle } = adoption.found;
  const { threshold } = deps.policy.trust;
  const rules = { threshold, roles: deps.trust.roles(), revocations: deps.trust.revocations() };
  const rotation = rotationOf(bundle, rules, deps.store.load().rotation);
  const event = adoptedEvent(adoption, rotation);
  deps.store.adopt(bundle, deps.recorder.row(event), rotation, adoption.isClaim);
  deps.keeping.delete(bundleId);
  deps.recorder.log(event);
  for (const warned of warningEvents(bundle)) deps.recorder.tell(warned);
  for (const event of rotationEvents(bundle, rotation)) deps.recorder.tell(event);
}

function adoptionOf(bundleId: BundleId, { adoptions }: Assessment) {
  return adoptions.find((adoption) => adoption.found.bundle.bundleId === bundleId);
}
