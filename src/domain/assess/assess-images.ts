import { defined } from '../../platform/defined.ts';
import { allIn, baseNeededBy } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { type ImageReason, labelOf } from '../model/reason.ts';
import { repositoryOf } from '../model/reference.ts';
import type { DamagedImage, DamageNext } from '../release/damaged-images.ts';
import {
  answeredNames,
  type ElsewhereUse,
  providedNames,
  pullsFromElsewhere,
  releasesInForce,
} from '../release/pulls.ts';
import { keptBundles } from '../release/recorded-phase.ts';
import { skippedTags, withdrawnAmong } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { DocumentChecks } from '../state/checks.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { type AssessedTags, tagsInWork, trustedReleases } from './assess-order.ts';

/** Display uses this order: a person's work comes first. */
const ORDER: readonly DamageNext['kind'][] = ['plug-in', 'give-up', 'in-use', 'cancelled', 'shared', 'look', 'heal'];

export function damageReasons(damaged: readonly DamagedImage[]): ReadonlyMap<BundleId, ImageReason> {
  const byBundle = new Map<BundleId, { readonly bundle: StoredBundle; readonly images: DamagedImage[] }>();
  for (const image of damaged) {
    if (!image.isPresent) continue;
    for (const bundle of image.bundles) {
      const entry = byBundle.get(bundle.bundleId) ?? { bundle, images: [] };
      entry.images.push(image);
      byBundle.set(bundle.bundleId, entry);
    }
  }
  return new Map(
    [...byBundle].flatMap(([bundleId, { bundle, images }]) => {
      const reason = reasonOf(bundle, images);
      return reason === undefined ? [] : [[bundleId, reason] as const];
    }),
  );
}

function reasonOf(bundle: StoredBundle, images: readonly DamagedImage[]): ImageReason | undefined {
  const [first] = [...images].sort((a, b) => ORDER.indexOf(a.next.kind) - ORDER.indexOf(b.next.kind));
  const [fault] = first?.faults ?? [];
  if (first === undefined || fault === undefined) return undefined;
  const data = defined({
    bundle: labelOf(bundle.payload),
    damaged: images.length,
    total: bundle.contents.images.length,
    reference: first.image.reference,
    fault,
    next: first.next.kind,
    base: baseNeededBy(first.image, bundle),
  });
  return { code: 'engine/image-damaged', data };
}

export interface PullAssessment {
  /** Used images that no release provides. Undefined when uses were not listed. */
  readonly elsewhere: readonly ElsewhereUse[] | undefined;
  readonly areServed: boolean;
}

export function assessPulls(
  { imageUses }: Observed,
  memory: Memory,
  assessed: AssessedTags,
  policy: Policy,
): PullAssessment {
  const names = providedNames(
    assessed.bundles.map(({ bundle }) => bundle),
    {
      afterProof: assessed.tags.afterProof.map(({ tag }) => tag),
      skipped: skippedTags(assessed.tags),
      inWork: tagsInWork(memory, assessed).map(({ tag }) => tag),
      withdrawn: withdrawnAmong(assessed.bundles),
    },
  );
  return {
    elsewhere: imageUses && pullsFromElsewhere(imageUses.uses, names, answeredNames(policy)),
    areServed: policy.serve.activated !== 'off' && hasServedImage(trustedReleases(assessed), policy),
  };
}

function hasServedImage(releases: readonly StoredBundle[], { serve }: Policy): boolean {
  const images = releasesInForce(releases).flatMap(({ contents }) => contents.images);
  return images.some(({ reference }) => !serve.except.includes(repositoryOf(reference)));
}

/** After only one check the runtime may just have failed to answer. */
const LOOKS = 2;

export function documentReasons(
  bundles: readonly StoredBundle[],
  checks: DocumentChecks | undefined,
): ReadonlyMap<BundleId, ImageReason> {
  const { lacking = new Set(), lackingChecks = 0 } = checks?.last ?? {};
  const reasons = new Map<BundleId, ImageReason>();
  if (lacking.size === 0 || lackingChecks < LOOKS) return reasons;
  for (const { bundleId, payload, contents } of keptBundles(bundles)) {
    const without = allIn(contents).filter(({ reference }) => lacking.has(reference));
    const [first] = without;
    if (first === undefined) continue;
    const isMixed = without.some((one) => !('pin' in one));
    const total = isMixed ? allIn(contents).length : contents.images.length;
    const counts = { lacking: without.length, total, ...(isMixed && { isMixed }) };
    const data = { bundle: labelOf(payload), ...counts, reference: first.reference };
    reasons.set(bundleId, { code: 'engine/documents-missing', data });
  }
  return reasons;
}
