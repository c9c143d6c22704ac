import type { Assessment } from '../assess/assess.ts';
import { type Advisory, bundleName } from '../model/bundle.ts';
import type { StoredBundle } from '../state/state.ts';

/** What is known about a release of a stream, and which bundle says so. */
export interface EffectiveAdvisory extends Advisory {
  /** `ocp@4.13.9` */
  readonly from: string;
}

/**
 * What is now known about releases of a stream, by version (bundle format, `advisories`: "the
 * newest sequence wins"): of all bundles that speak of a version, the one with the highest
 * sequence. So one that speaks of other versions takes nothing back, and an advisory that is
 * neither a dead end nor a barrier takes back an earlier one.
 *
 * @param bundles adopted bundles that are trusted, in any order.
 */
export function effectiveAdvisories(
  bundles: readonly StoredBundle[],
  stream: string,
): ReadonlyMap<string, EffectiveAdvisory> {
  const speaking = bundles
    .filter(({ payload }) => payload.name === stream)
    .sort((a, b) => a.payload.sequence - b.payload.sequence);
  return new Map(
    speaking.flatMap(({ payload }) =>
      (payload.advisories ?? []).map((advisory) => [advisory.version, { ...advisory, from: bundleName(payload) }]),
    ),
  );
}

/** The bundles whose word counts: adopted, and the trust in them stands. */
export function trustedBundles({ bundles, notices }: Pick<Assessment, 'bundles' | 'notices'>): readonly StoredBundle[] {
  return [...bundles, ...notices].filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
}
