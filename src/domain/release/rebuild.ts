import { admit } from '../adoption/adoption.ts';
import { KnownBundles } from '../adoption/floors.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { RuntimeImage } from '../model/image.ts';
import type { FoundBundle } from '../model/medium.ts';
import type { Fault, Reason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import { latestStamp, type Observed, type Stored, type StoredBundle } from '../state/state.ts';
import { tagGoalsOf } from './tag-goals.ts';

type RebuildEvidence =
  /** All its tags name its images, so it was activated. Nothing else is known. */
  | 'tags'
  /** Its images are pinned. Nothing else is known. */
  | 'pins';

export interface RebuiltRelease {
  readonly bundle: StoredBundle;
  readonly evidence: RebuildEvidence;
}

/** A bundle with present documents is not trusted. Its pins stay unclaimed. */
export interface RefusedRebuild {
  readonly bundleId: BundleId;
  readonly bundle?: VerifiedBundle;
  readonly reason: Reason | Fault;
}

export interface RebuildPlan {
  readonly rebuilt: readonly RebuiltRelease[];
  readonly refused: readonly RefusedRebuild[];
}

export interface JudgedDocuments {
  readonly bundleId: BundleId;
  readonly found: FoundBundle;
}

export interface RebuildContext {
  readonly judged: readonly JudgedDocuments[];
  readonly observed: Observed;
  readonly stored: Stored;
  readonly floors: Memory['floors'];
  /** These pins belong to no known release. */
  readonly unclaimed: ReadonlySet<string>;
  /** The database is new after a loss, or an earlier copy. */
  readonly isStateLost: boolean;
  readonly policy: Policy;
  readonly place: string;
}

/**
 * Rebuilds the records of releases that were lost with the database (docs/decisions/lost-state.md,
 * "Rebuilt releases"). A bundle is judged like an unknown one, except for its sequence and expiry.
 *
 * INVARIANT: no trust or activation is invented. A time without a record is left out, except for an
 * activation that the tags of the runtime prove.
 */
export function planRebuild(context: RebuildContext): RebuildPlan {
  const rebuilt: RebuiltRelease[] = [];
  const refused: RefusedRebuild[] = [];
  for (const { bundleId, found } of context.judged) {
    if (found.kind === 'rejected') refused.push({ bundleId, reason: found.reason });
    if (found.kind === 'unapproved') refused.push({ bundleId, reason: unapproved(bundleId, context.place) });
    if (found.kind !== 'verified' || found.bundle.bundleId !== bundleId) continue;
    if (!context.isStateLost && !hasUnclaimedPins(found.bundle, context.unclaimed, context.observed)) continue;
    const refusal = refusalOf(found.bundle, rebuilt, context);
    if (refusal === undefined) rebuilt.push(rebuild(found.bundle, rebuilt, context));
    else refused.push({ bundleId, bundle: found.bundle, reason: refusal });
  }
  return { rebuilt, refused };
}

function unapproved(bundleId: BundleId, medium: string): Reason {
  return { code: 'trust/approval', data: { kind: 'found-unsigned', bundleId, medium } };
}

/** All pins of the bundle are in force, and some of them belong to no known release. */
function hasUnclaimedPins(
  { contents }: VerifiedBundle,
  unclaimed: ReadonlySet<string>,
  { runtime }: Observed,
): boolean {
  if (runtime.kind !== 'reachable') return false;
  const inForce = new Set([...(runtime.foundPins ?? runtime.renderedPins), ...unclaimed]);
  const pins = contents.images.filter((image) => image.pin).map(({ reference }) => reference);
  return pins.some((reference) => unclaimed.has(reference)) && pins.every((reference) => inForce.has(reference));
}

function refusalOf(
  bundle: VerifiedBundle,
  rebuilt: readonly RebuiltRelease[],
  { observed, stored, floors, policy, place }: RebuildContext,
): Reason | undefined {
  const { verdicts, rejectedNames = [] } = stored;
  const approvals = { policy: policy.trust, verdicts, rejectedNames };
  const known = new KnownBundles([...stored.bundles, ...rebuilt.map((one) => one.bundle)], floors);
  const admission = admit(bundle, { ...observed, known, wasAdopted: true }, approvals, place);
  return admission.kind === 'adopt' ? undefined : admission.reason;
}

function rebuild(
  bundle: VerifiedBundle,
  rebuilt: readonly RebuiltRelease[],
  { observed, stored }: RebuildContext,
): RebuiltRelease {
  const { now } = observed;
  const claimed = { ...bundle, adoptedAt: now, claimedAt: now };
  if (!holdsItsTags(bundle, observed)) return { bundle: claimed, evidence: 'pins' };
  const activatedAt = Math.max(now, 1 + latestStamp([...stored.bundles, ...rebuilt.map((one) => one.bundle)]));
  return { bundle: { ...claimed, readyAt: activatedAt, activatedAt }, evidence: 'tags' };
}

/** False for a release without tags. */
function holdsItsTags(bundle: VerifiedBundle, { runtime }: Observed): boolean {
  if (runtime.kind !== 'reachable') return false;
  const byName = new Map<string, RuntimeImage>();
  for (const image of runtime.images) {
    for (const name of [...image.repoDigests, ...image.repoTags]) byName.set(name, image);
  }
  const goals = tagGoalsOf(bundle);
  return goals.length > 0 && goals.every(({ tag, reference }) => isSame(byName.get(tag), byName.get(reference)));
}

function isSame(one: RuntimeImage | undefined, other: RuntimeImage | undefined): boolean {
  return one !== undefined && one.imageId === other?.imageId;
}
