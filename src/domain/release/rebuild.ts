import { admit } from '../adoption/adoption.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { RuntimeImage } from '../model/image.ts';
import type { FoundBundle, MediumId } from '../model/medium.ts';
import type { Fault, Reason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { KnownRelease, PinLedger } from '../state/release-record.ts';
import { latestStamp, type Observed, type Stored, type StoredBundle } from '../state/state.ts';
import { tagGoalsOf } from './tags.ts';

/** What is stored of a bundle beside the database. */
export function knownRelease(bundle: StoredBundle): KnownRelease {
  const { bundleId, adoptedAt, claimedAt, resetAt, readyAt, activatedAt, activeAt, provenAt } = bundle;
  const { activationRequestedAt, activationOverrides, rolledBackAt, rolledBackReason, cancelled, contents } = bundle;
  return {
    bundleId,
    adoptedAt,
    ...(claimedAt !== undefined && { claimedAt }),
    ...(resetAt !== undefined && { resetAt }),
    ...(readyAt !== undefined && { readyAt }),
    ...(activationRequestedAt !== undefined && { activationRequestedAt }),
    ...(activationOverrides !== undefined && { activationOverrides }),
    ...(activatedAt !== undefined && { activatedAt }),
    ...(activeAt !== undefined && { activeAt }),
    ...(provenAt !== undefined && { provenAt }),
    ...(rolledBackAt !== undefined && { rolledBackAt }),
    ...(rolledBackReason !== undefined && { rolledBackReason }),
    ...(cancelled !== undefined && { cancelled }),
    ...(contents.images.length === 0 && { isNotice: true }),
  };
}

/**
 * Repairs a database that is an earlier copy: each time gets the later value of the database and
 * the pin ledger. Otherwise tags would go back to the release of that copy. Returns only changed
 * bundles.
 */
export function withLostTimes(
  bundles: readonly StoredBundle[],
  ledger: Pick<PinLedger, 'known'> | undefined,
): readonly StoredBundle[] {
  const known = new Map((ledger?.known ?? []).map((one) => [one.bundleId, one]));
  return bundles.flatMap((bundle) => {
    const recorded = known.get(bundle.bundleId);
    const later = recorded === undefined ? {} : laterIn(bundle, recorded);
    return Object.keys(later).length === 0 ? [] : [{ ...bundle, ...later }];
  });
}

/** What the ledger has and the database lacks, or has of an earlier time. */
function laterIn(bundle: StoredBundle, recorded: KnownRelease): Partial<StoredBundle> {
  const { resetAt, readyAt, activatedAt, activeAt, provenAt, activationRequestedAt, rolledBackAt, cancelled } =
    recorded;
  const { activationOverrides = [], rolledBackReason } = recorded;
  return {
    ...(isLater(resetAt, bundle.resetAt) && { resetAt }),
    ...(bundle.readyAt === undefined && readyAt !== undefined && { readyAt }),
    ...(isLater(activatedAt, bundle.activatedAt) && { activatedAt }),
    ...(isLater(activeAt, bundle.activeAt) && { activeAt }),
    ...(isLater(provenAt, bundle.provenAt) && { provenAt }),
    ...(isLater(activationRequestedAt, bundle.activationRequestedAt) && { activationRequestedAt, activationOverrides }),
    ...(isLater(rolledBackAt, bundle.rolledBackAt) && {
      rolledBackAt,
      ...(rolledBackReason !== undefined && { rolledBackReason }),
    }),
    ...(cancelled !== undefined && isLater(cancelled.at, bundle.cancelled?.at) && { cancelled }),
  };
}

function isLater(recorded: number | undefined, stored: number | undefined): recorded is number {
  return recorded !== undefined && recorded > (stored ?? Number.NEGATIVE_INFINITY);
}

type RebuildEvidence =
  | 'records'
  /** All its tags name its images, so it was activated. Nothing else is known. */
  | 'tags'
  /** Its images are pinned. Nothing else is known. */
  | 'pins';

export interface RebuiltRelease {
  readonly bundle: StoredBundle;
  readonly evidence: RebuildEvidence;
}

/** A bundle with present documents that is not trusted. Its pins stay unclaimed. */
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
  readonly remembered: readonly KnownRelease[];
  /** Pins that belong to no known release. */
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
 * INVARIANT: nothing is invented in favour of trust or of an activation. A time without a record is
 * left out, except for an activation that the tags of the runtime prove.
 */
export function planRebuild(context: RebuildContext): RebuildPlan {
  const rebuilt: RebuiltRelease[] = [];
  const refused: RefusedRebuild[] = [];
  for (const { bundleId, found } of context.judged) {
    const remembered = context.remembered.find((one) => one.bundleId === bundleId);
    if (found.kind === 'rejected') refused.push({ bundleId, reason: found.reason });
    if (found.kind === 'unapproved') refused.push({ bundleId, reason: unapproved(bundleId, context.place) });
    if (found.kind !== 'verified' || found.bundle.bundleId !== bundleId) continue;
    const isLost = context.isStateLost || remembered !== undefined;
    if (!isLost && !hasUnclaimedPins(found.bundle, context.unclaimed, context.observed)) continue;
    const refusal = refusalOf(found.bundle, rebuilt, context);
    if (refusal === undefined) rebuilt.push(rebuild(found.bundle, remembered, rebuilt, context));
    else refused.push({ bundleId, bundle: found.bundle, reason: refusal });
  }
  return { rebuilt, refused };
}

function unapproved(bundleId: BundleId, medium: string): Reason {
  return { code: 'trust/approval', data: { kind: 'found-unsigned', bundleId, medium } };
}

/** All its pins are in force, and some of them belong to no known release. */
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
  const known = {
    ...observed,
    floors,
    bundles: [...stored.bundles, ...rebuilt.map((one) => one.bundle)],
    wasAdopted: true,
  };
  const admission = admit(bundle, known, approvals, place);
  return admission.kind === 'adopt' ? undefined : admission.reason;
}

function rebuild(
  bundle: VerifiedBundle,
  remembered: KnownRelease | undefined,
  rebuilt: readonly RebuiltRelease[],
  { observed, stored }: RebuildContext,
): RebuiltRelease {
  const { now } = observed;
  if (remembered !== undefined) {
    const { isNotice: _, ...times } = remembered;
    return { bundle: { ...bundle, ...times, claimedAt: now }, evidence: 'records' };
  }
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

/** A release in the status document, as far as a rebuild needs it. Times are RFC 3339. */
export interface ReportedRelease {
  readonly bundleId: BundleId;
  readonly phase: string;
  readonly adoptedAt?: string;
  readonly readyAt?: string;
  readonly activatedAt?: string;
  /** Present while its preload is cancelled. `media`: plugged in then and ever since. */
  readonly cancelled?: { readonly at: string; readonly media: readonly MediumId[] };
  readonly conditions?: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly lastTransitionTime: string;
  }[];
}

export function knownFromReport(reported: readonly ReportedRelease[]): readonly KnownRelease[] {
  return reported.flatMap((release): KnownRelease[] => {
    const adoptedAt = timeOf(release.adoptedAt);
    if (adoptedAt === undefined || release.phase === 'retired') return [];
    const [readyAt, activatedAt] = [timeOf(release.readyAt), timeOf(release.activatedAt)];
    const cancelledAt = timeOf(release.cancelled?.at);
    return [
      {
        bundleId: release.bundleId,
        adoptedAt,
        ...(readyAt !== undefined && { readyAt }),
        ...(cancelledAt !== undefined && { cancelled: { at: cancelledAt, media: release.cancelled?.media ?? [] } }),
        ...(activatedAt !== undefined && { activatedAt, ...afterActivation(release, activatedAt) }),
      },
    ];
  });
}

/** The conditions have the times; none is before the activation. */
function afterActivation(
  { phase, conditions = [] }: ReportedRelease,
  activatedAt: number,
): Pick<KnownRelease, 'activeAt' | 'provenAt' | 'rolledBackAt'> {
  const since = (type: string, isIt: (one: { status: string; reason: string }) => boolean) => {
    const found = conditions.find((condition) => condition.type === type && isIt(condition));
    return found && Math.max(activatedAt, timeOf(found.lastTransitionTime) ?? activatedAt);
  };
  const isProven = phase === 'proven' || phase === 'superseded';
  const provenAt = since('Proven', ({ status }) => status === 'True') ?? (isProven ? activatedAt : undefined);
  const rolledBackAt = since('Active', ({ reason }) => reason === 'RolledBack');
  return {
    ...(phase === 'active' && { activeAt: activatedAt }),
    ...(provenAt !== undefined && { provenAt }),
    ...(rolledBackAt !== undefined && { rolledBackAt }),
  };
}

function timeOf(text: string | undefined): number | undefined {
  const time = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
