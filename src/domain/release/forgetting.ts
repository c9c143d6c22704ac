import { withdrawalOf } from '../adoption/adoption.ts';
import { sequenceOf, streamScheme } from '../adoption/floors.ts';
import { allIn } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import { approvalsIn, type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import { isRelease } from '../trust/trust-in-force.ts';
import { imageIds } from './evidence.ts';
import { currentRelease, isRetired, isRolledBack, keptBundles } from './recorded-phase.ts';
import { isBaseInNeed } from './retention.ts';
import { ownArtifactLayers } from './room.ts';
import { goalsAfterProof, tagGoalsOf } from './tag-goals.ts';
import type { PinAssessment } from './unclaimed-pins.ts';
import { isReliable, type Whole } from './whole.ts';

/** This many retired releases stay in the list although they have nothing on the node. */
export const KEPT_RETIRED = 3;

interface ForgetContext {
  readonly observed: Pick<Observed, 'runtime' | 'media' | 'localBlobs' | 'revocations' | 'roles'>;
  readonly memory: Pick<Memory, 'pinLedger' | 'running'>;
  readonly stored: Stored;
  readonly pins: PinAssessment;
  readonly policy: Pick<Policy, 'streams' | 'trust'>;
  readonly whole: Whole;
}

/**
 * Returns the oldest retired release that may become one line of history. Its stick is not plugged
 * in, and the node has nothing of it that stickpin would remove: images, tags, pins and copies of
 * artifacts. Its trust can't come back, since its statements about other releases would be lost.
 * INVARIANT: the floors, the present release, the scheme of versions and the owners of tags are the
 * same without it. So a release stays known while it is the last activated one of its stream, or
 * the one with the highest sequence.
 */
export function forgettable({ observed, memory, stored, pins, policy, whole }: ForgetContext): BundleId | undefined {
  const { runtime, media, localBlobs, revocations } = observed;
  const { bundles, pulledByUs = new Set() } = stored;
  const over = bundles.filter((bundle) => isRetired(bundle) && isRelease(bundle));
  if (over.length <= KEPT_RETIRED || runtime.kind !== 'reachable' || memory.running.length > 0) return undefined;
  const { pinLedger } = memory;
  const areDoubted = pins.isUncertain || pinLedger === undefined || pinLedger.isDoubted;
  if (areDoubted === true || revocations.revocationsUnreadable) return undefined;
  if (media.some(({ state }) => state.kind === 'attached' || state.kind === 'mounted')) {
    return undefined;
  }
  const ids = imageIds(runtime.images);
  const named = countOf(bundles.flatMap(({ contents }) => allIn(contents).map(({ reference }) => reference)));
  const isShared = (reference: string) => (named.get(reference) ?? 0) > 1;
  const shown = new Set(runtime.foundPins ?? runtime.renderedPins);
  const unclaimed = new Set(pins.unclaimed);
  const approvals = approvalsIn(stored, policy);
  const isLeft = (reference: string) =>
    shown.has(reference) || (ids.of(reference) !== undefined && pulledByUs.has(reference));
  const plugged = new Set(
    media.flatMap(({ state }) =>
      state.kind === 'read'
        ? state.bundles.flatMap((one) => (one.kind === 'verified' ? [one.bundle.bundleId] : []))
        : [],
    ),
  );
  const isOver = (bundle: StoredBundle) => {
    const references = allIn(bundle.contents).map(({ reference }) => reference);
    const imageIds = new Set(references.map((reference) => ids.of(reference)));
    const tags = [...tagGoalsOf(bundle), ...goalsAfterProof(bundle, policy.streams)];
    return (
      !plugged.has(bundle.bundleId) &&
      isTrustSettled(withdrawalOf(bundle, observed, approvals)?.reason.code) &&
      references.every((reference) => !unclaimed.has(reference)) &&
      !isBaseInNeed(bundle, bundles) &&
      references.every((reference) => isShared(reference) || !isLeft(reference)) &&
      tags.every(({ tag }) => ids.of(tag) === undefined || !imageIds.has(ids.of(tag))) &&
      isReliable(bundle.payload.name, bundles, whole) &&
      isReplaced(bundle, bundles) &&
      ownsNoTag(bundle, bundles) &&
      isSpare(bundle, bundles, localBlobs)
    );
  };
  const oldestFirst = [...over].sort((a, b) => (a.retiredAt ?? 0) - (b.retiredAt ?? 0));
  return oldestFirst.slice(0, -KEPT_RETIRED).find(isOver)?.bundleId;
}

/** If it goes, the scheme of versions stays, and no copies of its artifacts are left. */
function isSpare(bundle: StoredBundle, bundles: readonly StoredBundle[], localBlobs: ReadonlySet<Digest>): boolean {
  const { name } = bundle.payload;
  const others = bundles.filter((other) => other !== bundle);
  if (streamScheme(others, name) !== streamScheme(bundles, name)) return false;
  return ownArtifactLayers([bundle], others).every(({ digest }) => !localBlobs.has(digest));
}

/** Only a decision ends trust for good: a missing role or a threshold may be corrected. */
function isTrustSettled(withdrawn: string | undefined): boolean {
  return withdrawn === undefined || withdrawn === 'trust/rejected' || withdrawn === 'trust/key-revoked';
}

/** A later activation is in force, and another release has the higher sequence. */
function isReplaced(bundle: StoredBundle, bundles: readonly StoredBundle[]): boolean {
  const { activatedAt, payload } = bundle;
  if (activatedAt === undefined) return true;
  const current = currentRelease(bundles, payload.name);
  if (current === undefined || isRolledBack(current) || (current.activatedAt ?? 0) <= activatedAt) return false;
  const isHigher = (other: StoredBundle) => other.activatedAt !== undefined && sequenceOf(other) > sequenceOf(bundle);
  return bundle.resetAt !== undefined || ofStream(bundles, payload.name).some(isHigher);
}

/** Otherwise a tag would return to an older release. */
function ownsNoTag(bundle: StoredBundle, bundles: readonly StoredBundle[]): boolean {
  const { activatedAt } = bundle;
  if (activatedAt === undefined) return true;
  const tags = new Set(tagGoalsOf(bundle).map(({ tag }) => tag));
  const activated = keptBundles(bundles).filter((other) => other.activatedAt !== undefined);
  const claims = (isMeant: (at: number) => boolean) =>
    new Set(
      activated
        .filter((other) => isMeant(other.activatedAt ?? 0))
        .flatMap((other) => tagGoalsOf(other).flatMap(({ tag }) => (tags.has(tag) ? [tag] : []))),
    );
  const newer = claims((at) => at > activatedAt);
  return [...claims((at) => at <= activatedAt)].every((tag) => newer.has(tag));
}

function countOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
