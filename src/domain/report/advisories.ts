import type { Assessment } from '../assess/assess.ts';
import type { StoredBundle } from '../state/state.ts';

/** The bundles whose word counts: adopted, and the trust in them stands. */
export function trustedBundles({ bundles, notices }: Pick<Assessment, 'bundles' | 'notices'>): readonly StoredBundle[] {
  return [...bundles, ...notices].filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
}
