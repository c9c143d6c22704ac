import type { RuntimeObservation } from '../model/image.ts';
import type { KnownRelease, PinLedger, PinnedRelease, PinRecord, StateAge } from '../state/release-record.ts';
import { latestStamp, type StoredBundle } from '../state/state.ts';
import type { RejectedName, Verdict } from '../trust/approval.ts';
import { knownRelease } from './rebuild.ts';
import { isRetired, keptBundles } from './recorded-phase.ts';

/** Pins of one release. `bundleId`, `name` and `version` are absent when it is not known. */
export type UnclaimedPins = Partial<Omit<PinnedRelease, 'references'>> & Pick<PinnedRelease, 'references'>;

export interface PinAssessment {
  /** Pins that a kept release wants, sorted. */
  readonly claimed: readonly string[];
  /** Rendered pins that no known release wants, sorted. Only a person gives them up. */
  readonly unclaimed: readonly string[];
  /** {@link unclaimed} by release, the nameless rest last. */
  readonly unclaimedReleases: readonly UnclaimedPins[];
  readonly record: PinRecord;
  /** Pins may exist that can't be seen now: no pin is rendered and the ledger stays. */
  readonly isUncertain: boolean;
}

export interface PinContext {
  readonly bundles: readonly StoredBundle[];
  /** Undefined when there is none, or when it can't be read. */
  readonly ledger: PinLedger | undefined;
  readonly runtime: RuntimeObservation;
  readonly age: StateAge;
  /** Adopted bundles without images. */
  readonly notices?: readonly StoredBundle[];
  readonly verdicts?: readonly Verdict[];
  readonly rejectedNames?: readonly RejectedName[];
  /** The last report of releases, for gaps of the ledger. */
  readonly reported?: readonly KnownRelease[];
}

/**
 * Sorts all pins into claimed and unclaimed ones.
 *
 * INVARIANT: a rendered pin is removed for one of two reasons only: the database, which is not
 * older than the ledger, says that its release was retired; or a person gave it up. A lost,
 * replaced or restored database says nothing about releases that it does not know. In doubt a pin
 * is kept.
 */
export function assessPins(context: PinContext): PinAssessment {
  const { bundles, ledger, runtime, age } = context;
  const found = runtime.kind === 'reachable' ? (runtime.foundPins ?? runtime.renderedPins) : [];
  const isUnseen = runtime.kind !== 'reachable' || runtime.arePinsUnread === true;
  const claimed = uniqueSorted(keptBundles(bundles).flatMap(pinsIn));
  const isDoubted = ledger === undefined || !isAsNew(age, ledger.state);
  const released = new Set(isDoubted ? [] : bundles.filter(isRetired).flatMap(pinsIn));
  const disputed = (ledger?.releases ?? []).filter((release) => isDisputed(release, bundles, ledger));
  const remembered = (ledger?.releases ?? []).flatMap(({ references }) => references);
  const strays = [...found, ...remembered].filter((reference) => !released.has(reference));
  const candidates = [...(ledger?.unclaimed ?? []), ...strays, ...disputed.flatMap(({ references }) => references)];
  const gone = new Set([...claimed, ...(ledger?.givenUp ?? [])]);
  const unclaimed = uniqueSorted(candidates.filter((reference) => !gone.has(reference)));
  const unclaimedReleases = byRelease(unclaimed, [...(ledger?.releases ?? []), ...bundles.map(pinnedRelease)]);
  const shown = new Set(found);
  const wanted = new Set(claimed);
  const givenUp = (ledger?.givenUp ?? []).filter(
    (reference) => !wanted.has(reference) && (isUnseen || shown.has(reference)),
  );
  const releases = [
    ...keptBundles(bundles)
      .map(pinnedRelease)
      .filter(({ references }) => references.length > 0),
    ...unclaimedReleases.filter(isNamed),
  ];
  const lost = unclaimed.length > 0 ? rememberedReleases(context) : [];
  const record = { releases, unclaimed, givenUp, known: knownIn(context, lost), ...saidIn(context, isDoubted) };
  return { claimed, unclaimed, unclaimedReleases, record, isUncertain: isUnseen && isDoubted };
}

/** Bundles that the database does not know. The ledger counts; the last report fills its gaps. */
export function rememberedReleases({
  bundles,
  notices = [],
  ledger,
  reported = [],
}: Pick<PinContext, 'bundles' | 'notices' | 'ledger' | 'reported'>): readonly KnownRelease[] {
  const stored = new Set([...bundles, ...notices].map(({ bundleId }) => bundleId));
  const known = ledger?.known ?? [];
  const knownIds = new Set(known.map(({ bundleId }) => bundleId));
  return [...known, ...reported.filter(({ bundleId }) => !knownIds.has(bundleId))].filter(
    ({ bundleId }) => !stored.has(bundleId),
  );
}

/** A notice pins nothing, so it is kept until it is known again. */
function knownIn(context: PinContext, lost: readonly KnownRelease[]): readonly KnownRelease[] {
  const { bundles, notices = [] } = context;
  const lostNotices = rememberedReleases(context).filter(({ isNotice }) => isNotice === true);
  const all = [...keptBundles([...bundles, ...notices]).map(knownRelease), ...lost, ...lostNotices];
  return [...new Map(all.map((one) => [one.bundleId, one])).values()];
}

/** The database counts, except for what it may have lost. */
function saidIn({ verdicts = [], rejectedNames = [], ledger }: PinContext, isDoubted: boolean) {
  if (!isDoubted) return { verdicts, rejectedNames };
  return {
    verdicts: [...verdicts, ...lostVerdicts(verdicts, ledger)],
    rejectedNames: [...rejectedNames, ...lostNames(rejectedNames, ledger)],
  };
}

/** Verdicts of the ledger that the database lacks, or has of an earlier time. */
export function lostVerdicts(known: readonly Verdict[], ledger: PinLedger | undefined): readonly Verdict[] {
  const latest = new Map(known.map((verdict) => [verdict.bundleId, verdict.at]));
  return (ledger?.verdicts ?? []).filter(({ bundleId, at }) => at > (latest.get(bundleId) ?? -1));
}

export function lostNames(
  known: readonly RejectedName[],
  ledger: Pick<PinLedger, 'rejectedNames'> | undefined,
): readonly RejectedName[] {
  return (ledger?.rejectedNames ?? []).filter(
    ({ name, version }) => !known.some((one) => one.name === name && one.version === version),
  );
}

export function ledgerOf(record: PinRecord, bundles: readonly StoredBundle[], state: StateAge): PinLedger {
  return { ...record, state, stamp: latestStamp(bundles) };
}

export function isSameRecord(one: PinRecord, other: PinRecord): boolean {
  const textOf = ({ releases, unclaimed, givenUp, known = [], verdicts = [], rejectedNames = [] }: PinRecord) =>
    JSON.stringify([releases, unclaimed, givenUp, known, verdicts, rejectedNames]);
  return textOf(one) === textOf(other);
}

/** Whether the ledger belongs to the database, and the database is no earlier copy. */
export function isAsNew(age: StateAge, ledger: StateAge): boolean {
  return age.origin === ledger.origin && age.revision >= ledger.revision;
}

/** The ledger still wanted the pins after the retirement: one of the two is damaged. */
function isDisputed(
  { bundleId }: PinnedRelease,
  bundles: readonly StoredBundle[],
  ledger: PinLedger | undefined,
): boolean {
  const bundle = bundles.find((one) => one.bundleId === bundleId);
  return bundle !== undefined && isRetired(bundle) && (bundle.retiredAt ?? 0) <= (ledger?.stamp ?? 0);
}

function pinnedRelease(bundle: StoredBundle): PinnedRelease {
  const { bundleId, payload } = bundle;
  return { bundleId, name: payload.name, version: payload.version, references: pinsIn(bundle) };
}

function pinsIn({ contents }: StoredBundle): string[] {
  return uniqueSorted(contents.images.flatMap((image) => (image.pin ? [image.reference] : [])));
}

/** Each pin belongs to the first release that names it. */
function byRelease(unclaimed: readonly string[], releases: readonly PinnedRelease[]): readonly UnclaimedPins[] {
  const left = new Set(unclaimed);
  const named = releases.flatMap((release): UnclaimedPins[] => {
    const references = release.references.filter((reference) => left.delete(reference));
    return references.length === 0 ? [] : [{ ...release, references }];
  });
  return left.size === 0 ? named : [...named, { references: [...left] }];
}

function isNamed(pins: UnclaimedPins): pins is PinnedRelease {
  return pins.bundleId !== undefined;
}

function uniqueSorted(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}
