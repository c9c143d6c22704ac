import type { BundleId } from '../model/digest.ts';
import { type ImageReason, labelOf } from '../model/reason.ts';
import { keptBundles } from '../release/recorded-phase.ts';
import type { DocumentChecks } from '../state/document-check.ts';
import type { StoredBundle } from '../state/state.ts';

/** After one look the runtime may just have failed to answer. */
const LOOKS = 2;

/** What each release says about lost documents that nothing at hand can give again. */
export function documentReasons(
  bundles: readonly StoredBundle[],
  checks: DocumentChecks | undefined,
): ReadonlyMap<BundleId, ImageReason> {
  const { lacking = new Set(), lackingLooks = 0 } = checks?.last ?? {};
  const reasons = new Map<BundleId, ImageReason>();
  if (lacking.size === 0 || lackingLooks < LOOKS) return reasons;
  for (const { bundleId, payload, contents } of keptBundles(bundles)) {
    const without = contents.images.filter(({ reference }) => lacking.has(reference));
    const [first] = without;
    if (first === undefined) continue;
    const counts = { lacking: without.length, total: contents.images.length };
    const data = { bundle: labelOf(payload), ...counts, reference: first.reference };
    reasons.set(bundleId, { code: 'engine/documents-missing', data });
  }
  return reasons;
}
