import { defined } from '../../platform/defined.ts';
import { onceFor } from '../../platform/once-for.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { RuntimeImage, RuntimeObservation } from '../model/image.ts';
import { labelOf, type Reason, type ReleaseReason } from '../model/reason.ts';
import { repositoryOf } from '../model/reference.ts';
import { type Lacking, lackingCount } from '../preload/supply.ts';
import type { Policy } from '../settings/settings.ts';
import { isWaiting, type Memory, type TagGiven } from '../state/memory.ts';
import { type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import { hasBegun, isRetired, isRolledBack, keptBundles } from './recorded-phase.ts';
import { type LocalImage, localImages, type ProofGoal, proofGoals, type TagGoal, tagGoalsOf } from './tag-goals.ts';
import type { Whole } from './whole.ts';

export interface StrayTag extends TagGoal {
  readonly bundleId: BundleId;
  /** The image that the tag names now, by digest or by image id. */
  readonly names: string | undefined;
  /** Set for a tag that is given after the proof. */
  readonly provenAt?: number;
}

export interface TagAssessment {
  readonly stray: readonly StrayTag[];
  /** Other images took these tags of any release repeatedly. They stay as they are. */
  readonly contested: readonly StrayTag[];
  /** Stray tags to restore now, all of one release. */
  readonly due: readonly StrayTag[];
  /** Stray tags whose repositories need the mirror: the due ones, and those in a pause. */
  readonly mirrored: readonly StrayTag[];
  /** Restored tags that name their images now, or belong to no release any more. */
  readonly settled: readonly string[];
  /** The tags that releases have after their proof. */
  readonly afterProof: readonly ProofGoal[];
  /** Images of the node that keep tags of a release. */
  readonly local: ReadonlyMap<BundleId, readonly LocalImage[]>;
  /** When the next one is due, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
  readonly troubles: ReadonlyMap<BundleId, Reason>;
}

interface TagHolder extends Lacking {
  readonly bundle: StoredBundle;
  readonly withdrawn: Reason | undefined;
  readonly activationDue: boolean;
}

/**
 * How often a tag is taken back from another image within {@link CONTEST_MS}. After that another
 * program seems to want it. A tag that names no image is restored without a limit.
 */
const CONTEST_TIMES = 3;
const CONTEST_MS = 60 * 60_000;
/** The pause after the first restoration. It is four times as long after the second and third. */
const PAUSE_MS = 5_000;

const NO_TAGS: TagAssessment = {
  stray: [],
  contested: [],
  due: [],
  mirrored: [],
  settled: [],
  afterProof: [],
  local: new Map(),
  wakeAt: undefined,
  troubles: new Map(),
};

/** Includes the tags of `tag_after_proof`. */
export function allGoalsOf(bundle: StoredBundle, { afterProof }: TagAssessment): readonly TagGoal[] {
  return [...tagGoalsOf(bundle), ...afterProof.filter(({ bundleId }) => bundleId === bundle.bundleId)];
}

/**
 * Returns the release whose image the registry sends for each tag: in a stream the one activated
 * last, even after it is superseded, until it is retired. A tag does not move back automatically:
 * one that a retired or rolled back release took from a kept one belongs to none, unless all of
 * them name the same image.
 *
 * Among several streams, the release whose lost tags are restored ({@link restoredReleases}) wins,
 * then the one activated first, since no other may take a held tag (`foreignTag`). `withdrawn`
 * releases have no trust and thus no tags.
 */
export function tagOwners(
  bundles: readonly StoredBundle[],
  withdrawn: ReadonlySet<StoredBundle> = new Set(),
  tagsOf = tagGoalsOf,
): ReadonlyMap<string, StoredBundle> {
  const restored = restoredReleases(bundles);
  const isBefore = (one: StoredBundle, other: StoredBundle) =>
    restored.has(one) === restored.has(other) ? (one.activatedAt ?? 0) < (other.activatedAt ?? 0) : restored.has(one);
  const owners = new Map<string, StoredBundle>();
  for (const stream of new Set(bundles.map(({ payload }) => payload.name))) {
    const activated = ofStream(bundles, stream)
      .filter(({ activatedAt }) => activatedAt !== undefined)
      .sort((a, b) => (a.activatedAt ?? 0) - (b.activatedAt ?? 0));
    for (const [tag, claims] of claimsByTag(activated, tagsOf)) {
      const owner = ownerOf(claims, withdrawn);
      const other = owners.get(tag);
      if (owner !== undefined && (other === undefined || isBefore(owner, other))) owners.set(tag, owner);
    }
  }
  return owners;
}

/**
 * Returns the last activated release of each stream. After its rollback or retirement a stream has
 * none: moving tags of an older one would be an activation without a request.
 */
export function restoredReleases(bundles: readonly StoredBundle[]): ReadonlySet<StoredBundle> {
  const newest = new Map<string, StoredBundle>();
  for (const bundle of bundles) {
    const { activatedAt } = bundle;
    const other = newest.get(bundle.payload.name);
    if (activatedAt !== undefined && activatedAt >= (other?.activatedAt ?? 0)) newest.set(bundle.payload.name, bundle);
  }
  return new Set([...newest.values()].filter((bundle) => !isRetired(bundle) && !isRolledBack(bundle)));
}

interface TagClaim {
  readonly bundle: StoredBundle;
  readonly digest: Digest;
}

function claimsByTag(
  bundles: readonly StoredBundle[],
  tagsOf: typeof tagGoalsOf,
): ReadonlyMap<string, readonly TagClaim[]> {
  const claims = new Map<string, TagClaim[]>();
  for (const bundle of bundles) {
    for (const { tag, digest } of tagsOf(bundle)) {
      const before = claims.get(tag);
      if (before === undefined) claims.set(tag, [{ bundle, digest }]);
      else before.push({ bundle, digest });
    }
  }
  return claims;
}

function ownerOf(claims: readonly TagClaim[], withdrawn: ReadonlySet<StoredBundle>): StoredBundle | undefined {
  const last = claims.at(-1);
  if (last === undefined) return undefined;
  const kept = claims.filter(({ bundle }) => !isRetired(bundle));
  const same = kept.filter(({ digest }) => digest === last.digest);
  const isTaken = isRetired(last.bundle) || isRolledBack(last.bundle);
  if (isTaken && same.length < kept.length) return undefined;
  return same.findLast(({ bundle }) => !withdrawn.has(bundle))?.bundle;
}

/** Compares the tags of releases with those of the runtime. Absent images are pulled first. */
export function assessTags(
  holders: readonly TagHolder[],
  { runtime, now }: Observed,
  { running, tagsGiven, failures }: Memory,
  { whole, ...stored }: Stored & { readonly whole: Whole },
  { streams }: Policy,
): TagAssessment {
  const wantedTags = wantedBesideOthers(holders, runtime, stored, streams);
  const nothing = { ...NO_TAGS, afterProof: wantedTags.afterProof, local: wantedTags.local };
  if (runtime.kind !== 'reachable') return nothing;
  const given = givenByTag(tagsGiven);
  // A proof and a rollback move a tag, however often it was given before.
  const givenTo = ({ tag, provenAt = 0 }: StrayTag) => (given.get(tag) ?? []).filter(({ at }) => at >= provenAt);
  const isContested = (one: StrayTag) => one.names !== undefined && areContested(givenTo(one));
  // While tags move, the observation counts only for contested ones.
  if (running.some(({ kind }) => kind === 'activate' || kind === 'restore-tags')) {
    if (![...given.values()].some(areContested)) return nothing;
    const { lost } = compare(holders, runtime, wantedTags);
    return { ...nothing, contested: lost.filter(isContested) };
  }
  const { lost, met, owned, restored } = compare(holders, runtime, wantedTags);
  const settled = [...given.keys()].filter((tag) => met.has(tag) || !owned.has(tag));
  const contested = lost.filter(isContested);
  // A tag after the proof may be taken back for a release that is whole.
  const stray = lost.filter(({ bundleId, provenAt }) => (provenAt === undefined ? restored : whole).has(bundleId));
  if (stray.length === 0) return { ...nothing, contested, settled };
  const failed = failures.filter(({ task }) => task.kind === 'restore-tags');
  const isPaused = (bundleId: BundleId) =>
    failed.some((failure) => failure.task.bundleId === bundleId && isWaiting(failure, now));
  const open = stray.filter((one) => !contested.includes(one));
  const wanted = open.filter((one) => !isPaused(one.bundleId));
  const ready = wanted.filter((one) => dueAt(givenTo(one), now) <= now);
  const due = ready.filter(({ bundleId }) => bundleId === ready[0]?.bundleId);
  const later = wanted.map((one) => dueAt(givenTo(one), now)).filter((at) => at > now);
  return {
    ...nothing,
    stray,
    contested,
    settled,
    due,
    // A runtime reads its configuration late (docs/runtime-facts.md, fact 5), so mirrors stay.
    mirrored: [...due, ...open.filter((one) => isPaused(one.bundleId))],
    wakeAt: later.length === 0 ? undefined : Math.min(...later),
    troubles: troublesOf(holders, stray, contested, failures),
  };
}

interface WantedTags extends Pick<TagAssessment, 'afterProof' | 'local'> {
  readonly isLeft: (bundleId: BundleId, reference: string) => boolean;
}

function wantedBesideOthers(
  holders: readonly TagHolder[],
  runtime: RuntimeObservation,
  stored: Stored,
  streams: Policy['streams'],
): WantedTags {
  const bundles = holders.map(({ bundle }) => bundle);
  const images = runtime.kind === 'reachable' ? runtime.images : [];
  const local = new Map(bundles.map((bundle) => [bundle.bundleId, localImages(bundle, images, stored, streams)]));
  const isLeft = (bundleId: BundleId, reference: string) =>
    local.get(bundleId)?.some((image) => image.reference === reference) === true;
  const withdrawn = new Set([...withdrawnAmong(holders)].map(({ bundleId }) => bundleId));
  return {
    isLeft,
    afterProof: proofGoals(bundles, streams).filter(
      ({ bundleId, reference }) => !withdrawn.has(bundleId) && !isLeft(bundleId, reference),
    ),
    local,
  };
}

/** Keeps settled tags of the last hour and all others, at most three losses of each. */
export function tagsGivenLately(
  given: readonly TagGiven[],
  settled: readonly string[],
  now: number,
): readonly TagGiven[] {
  const losses = givenByTag(given.filter(({ wasGone }) => wasGone));
  return given
    .filter(({ tag, at }) => !settled.includes(tag) || Math.abs(now - at) <= CONTEST_MS)
    .filter((one) => !one.wasGone || losses.get(one.tag)?.slice(-CONTEST_TIMES).includes(one));
}

/** Returns tags that were restored three times within the last hour because they named no image. */
export function tagsOftenGone(given: readonly TagGiven[], now: number): ReadonlySet<string> {
  const late = givenByTag(given.filter(({ at, wasGone }) => wasGone && Math.abs(now - at) <= CONTEST_MS));
  return new Set([...late].flatMap(([tag, times]) => (times.length < CONTEST_TIMES ? [] : [tag])));
}

export function contestReason({ tag, reference, names }: StrayTag, { payload }: StoredBundle): ReleaseReason {
  const data = defined({ bundle: labelOf(payload), tag, reference, times: CONTEST_TIMES, names });
  return { code: 'engine/tag-contested', data };
}

function compare(
  holders: readonly TagHolder[],
  { images }: Extract<RuntimeObservation, { kind: 'reachable' }>,
  { afterProof, isLeft }: WantedTags,
) {
  // An activation that follows or is retried moves the tags of its stream.
  const activating = holders.filter((holder) => holder.activationDue && lackingCount(holder) === 0);
  const moving = new Set(activating.map(({ bundle }) => bundle.payload.name));
  const byName = new Map<string, RuntimeImage>(
    images.flatMap((image) => [...image.repoTags, ...image.repoDigests].map((name) => [name, image] as const)),
  );
  const bundles = holders.map(({ bundle }) => bundle);
  const restored = restoredReleases(bundles);
  const owners = tagOwners(bundles, withdrawnAmong(holders));
  const lost: StrayTag[] = [];
  const met = new Set<string>();
  const look = (goal: Omit<StrayTag, 'names'>) => {
    const image = byName.get(goal.reference);
    if (image === undefined) return;
    const tagged = byName.get(goal.tag);
    if (tagged?.imageId === image.imageId) met.add(goal.tag);
    else lost.push({ ...goal, names: tagged && nameOf(tagged) });
  };
  for (const bundle of new Set(owners.values())) {
    const { bundleId, payload } = bundle;
    if (restored.has(bundle) && moving.has(payload.name)) continue;
    for (const goal of tagGoalsOf(bundle)) {
      if (owners.get(goal.tag) === bundle && !isLeft(bundleId, goal.reference)) look({ ...goal, bundleId });
    }
  }
  for (const goal of afterProof) look(goal);
  const restoredIds = new Set([...restored].map(({ bundleId }) => bundleId));
  const owned = new Set([...owners.keys(), ...afterProof.map(({ tag }) => tag)]);
  return { lost, met, owned, restored: restoredIds };
}

/** Returns tags that the registry does not answer. */
export function skippedTags({ contested, local }: TagAssessment): ReadonlySet<string> {
  const ownTags = [...local.values()].flat().flatMap(({ tag, others }) => [tag, ...others]);
  return new Set([...contested.map(({ tag }) => tag), ...ownTags]);
}

export function withdrawnAmong(holders: readonly TagHolder[]): ReadonlySet<StoredBundle> {
  return new Set(holders.flatMap(({ bundle, withdrawn }) => (withdrawn === undefined ? [] : [bundle])));
}

function nameOf({ repoDigests, imageId }: RuntimeImage): string {
  return repoDigests[0] ?? imageId;
}

function givenByTag(given: readonly TagGiven[]): ReadonlyMap<string, readonly TagGiven[]> {
  const byTag = new Map<string, TagGiven[]>();
  for (const one of given) byTag.set(one.tag, [...(byTag.get(one.tag) ?? []), one]);
  return byTag;
}

function areContested(given: readonly TagGiven[]): boolean {
  const taken = given.filter(({ wasGone }) => !wasGone);
  const [last, first] = [taken.at(-1), taken.at(-CONTEST_TIMES)];
  return last !== undefined && first !== undefined && Math.abs(last.at - first.at) <= CONTEST_MS;
}

/** Allows for a time in the future, since the wall clock may be set back. */
function dueAt(given: readonly TagGiven[], now: number): number {
  const last = given.at(-1)?.at;
  const times = Math.min(given.length, CONTEST_TIMES);
  return last === undefined || last > now ? now : last + PAUSE_MS * 4 ** (times - 1);
}

function troublesOf(
  holders: readonly TagHolder[],
  stray: readonly StrayTag[],
  contested: readonly StrayTag[],
  failures: Memory['failures'],
): ReadonlyMap<BundleId, Reason> {
  const troubles = new Map<BundleId, Reason>();
  for (const { task, reason, isExhausted } of failures) {
    if (task.kind !== 'restore-tags' || isExhausted !== true) continue;
    if (stray.some(({ bundleId }) => bundleId === task.bundleId)) troubles.set(task.bundleId, reason);
  }
  for (const { bundle } of holders) {
    const lost = contested.find((one) => one.bundleId === bundle.bundleId && stray.includes(one));
    if (lost !== undefined) troubles.set(bundle.bundleId, contestReason(lost, bundle));
  }
  return troubles;
}

/** A release wants a tag that a release of another stream holds for another image. */
export interface TagConflict {
  readonly tag: string;
  readonly holder: StoredBundle;
}

/**
 * Returns the first tag of a release that a release of another stream holds for another digest. A
 * release holds its tags from the begin of its activation until it is retired, even if it was
 * rolled back or superseded: the way back to it must stay open.
 */
export function foreignTag(bundle: StoredBundle, bundles: readonly StoredBundle[]): TagConflict | undefined {
  const conflicts = [...tagsOf(bundle)].flatMap(([tag, digest]) =>
    (heldTagsIn(bundles).get(tag) ?? []).filter(
      ({ holder, held }) =>
        held !== digest && holder.payload.name !== bundle.payload.name && holdsAgainst(holder, bundle),
    ),
  );
  return conflicts.sort((a, b) => a.at - b.at)[0];
}

const heldTagsIn = onceFor((bundles: readonly StoredBundle[]) => {
  const all = keptBundles(bundles).filter((holder) => holder.activatedAt !== undefined || hasBegun(holder));
  const held = all.flatMap((holder) => [...tagsOf(holder)].map(([tag, digest]) => ({ tag, holder, held: digest })));
  return Map.groupBy(
    held.map((one, at) => ({ ...one, at })),
    ({ tag }) => tag,
  );
});

/** The first of two begun activations continues: neither waits for the other. */
function holdsAgainst(holder: StoredBundle, other: StoredBundle): boolean {
  if (holder.activatedAt !== undefined) return true;
  if (!hasBegun(other)) return true;
  return order(holder) < order(other) || (order(holder) === order(other) && holder.bundleId < other.bundleId);
}

function order({ activationBegunAt = 0 }: StoredBundle): number {
  return activationBegunAt;
}

/** Includes the tags that are attached to its images. */
function tagsOf({ contents }: StoredBundle): ReadonlyMap<string, Digest> {
  const tags = new Map<string, Digest>();
  for (const { reference, digest, tags: ownTags, attached = [] } of contents.images) {
    for (const { tag, digest: document } of attached) tags.set(`${repositoryOf(reference)}:${tag}`, document);
    for (const tag of ownTags) tags.set(tag, digest);
  }
  return tags;
}

/** The first adopted of several streams decides. @param bundles in the order of adoption */
export function attachedOwners(bundles: readonly StoredBundle[]): ReadonlyMap<string, BundleId> {
  const owners = new Map<string, { readonly stream: string; readonly bundleId: BundleId }>();
  for (const { bundleId, payload, contents } of bundles) {
    for (const { reference, attached = [] } of contents.images) {
      for (const { tag } of attached) {
        const name = `${repositoryOf(reference)}:${tag}`;
        const owner = owners.get(name);
        if (owner === undefined || owner.stream === payload.name) owners.set(name, { stream: payload.name, bundleId });
      }
    }
  }
  return new Map([...owners].map(([name, { bundleId }]) => [name, bundleId]));
}
