import { streamClockFault } from '../adoption/stream-facts.ts';
import type { BundleId } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { isRetired } from './recorded-phase.ts';
import { isBaseInNeed, isProtected, isWanted } from './retention.ts';

/** What {@link incompleteReleases} looks at. */
export interface IncompleteContext {
  readonly observed: Pick<Observed, 'now' | 'boot' | 'media' | 'runtime' | 'facts' | 'clockSynchronised'>;
  readonly memory: Pick<Memory, 'running' | 'lastCarriers'>;
  readonly bundles: readonly StoredBundle[];
  readonly policy: { readonly retention: Pick<Policy['retention'], 'incomplete'> } & Pick<Policy, 'lifecycle'>;
}

/**
 * Releases that have not become complete for `retention.incomplete` since their adoption: a stick
 * was taken away and never came back. Not one whose bundle is on a plugged medium, since it may go
 * on at once; none while the runtime does not answer, or of a stream for which the clock can't be
 * right. The wall clock may be set meanwhile: where the daemon saw the medium leave, the time since
 * then counts by the uptime of the machine too.
 */
export function incompleteReleases({ observed, memory, bundles, policy }: IncompleteContext): readonly BundleId[] {
  const { incomplete } = policy.retention;
  const { now, boot, media, runtime, facts, clockSynchronised } = observed;
  if (incomplete === 'keep' || runtime.kind !== 'reachable') return [];
  const atHand = new Set(
    media.flatMap(({ state }) => {
      const found = state.kind === 'read' ? state.bundles : [];
      return found.flatMap((one) => (one.kind === 'verified' ? [one.bundle.bundleId] : []));
    }),
  );
  const isLooking = media.some(({ state }) => state.kind === 'attached' || state.kind === 'mounted');
  if (isLooking) return [];
  const present = new Set(runtime.images.flatMap(({ repoDigests }) => repoDigests));
  const busy = new Set(memory.running.map(({ bundleId }) => bundleId));
  const leftFor = ({ bundleId }: StoredBundle) =>
    boot.uptimeMs - (memory.lastCarriers.get(bundleId)?.seenMs ?? Number.NEGATIVE_INFINITY);
  return bundles
    .filter(({ adoptedAt, readyAt }) => readyAt === undefined && now - adoptedAt >= incomplete)
    .filter((bundle) => leftFor(bundle) >= incomplete)
    .filter(({ bundleId }) => !atHand.has(bundleId) && !busy.has(bundleId))
    .filter((bundle) => !isRetired(bundle) && !isWanted(bundle) && bundle.activatedAt === undefined)
    .filter((bundle) => !isProtected(bundle, policy.lifecycle) && !isBaseInNeed(bundle, bundles))
    .filter(({ contents }) => contents.images.some(({ reference }) => !present.has(reference)))
    .filter((bundle) => streamClockFault(bundle, { bundles, now, facts, clockSynchronised }) === undefined)
    .map(({ bundleId }) => bundleId);
}
