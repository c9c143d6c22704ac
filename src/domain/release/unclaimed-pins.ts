import { type RuntimeObservation, takesArtifacts } from '../model/image.ts';
import type { PinLedger, PinnedRelease } from '../state/release-record.ts';
import type { StoredBundle } from '../state/state.ts';
import { isRetired, keptBundles } from './recorded-phase.ts';

/** Pins of one release. `bundleId`, `name` and `version` are absent when unknown. */
export type UnclaimedPins = Partial<Omit<PinnedRelease, 'references'>> & Pick<PinnedRelease, 'references'>;

export interface PinAssessment {
  /** A kept release wants these pins. Sorted. */
  readonly claimed: readonly string[];
  /** No known release wants these rendered pins. Only a person gives them up. Sorted. */
  readonly unclaimed: readonly string[];
  /** {@link unclaimed} by release, those without a name last. */
  readonly unclaimedReleases: readonly UnclaimedPins[];
  readonly record: PinLedger;
  /** Some pins may be invisible now: no pin is rendered and the ledger stays. */
  readonly isUncertain: boolean;
}

export interface PinContext {
  readonly bundles: readonly StoredBundle[];
  /** Undefined when there is no ledger, or when it can't be read. */
  readonly ledger: PinLedger | undefined;
  readonly runtime: RuntimeObservation;
}

/**
 * Sorts all pins into claimed and unclaimed ones.
 *
 * INVARIANT: a rendered pin is removed only if the database, which is no earlier one, says that its
 * release was retired, or if a person gave it up. A lost or restored database knows nothing about
 * other releases. In doubt a pin is kept.
 */
export function assessPins({ bundles, ledger, runtime }: PinContext): PinAssessment {
  const found = runtime.kind === 'reachable' ? (runtime.foundPins ?? runtime.renderedPins) : [];
  const isUnseen = runtime.kind !== 'reachable' || runtime.arePinsUnread === true;
  const kept = keptBundles(bundles);
  const claimed = uniqueSorted(kept.flatMap(takesArtifacts(runtime) ? pinsIn : imagePinsIn));
  const isDoubted = ledger === undefined || ledger.isDoubted === true;
  const released = new Set(isDoubted ? [] : bundles.filter(isRetired).flatMap(pinsIn));
  const strays = found.filter((reference) => !released.has(reference));
  // A pin that an older CRI-O can't render still belongs to its kept release.
  const gone = new Set([...kept.flatMap(pinsIn), ...(ledger?.givenUp ?? [])]);
  const candidates = [...(ledger?.unclaimed ?? []), ...strays];
  const unclaimed = uniqueSorted(candidates.filter((reference) => !gone.has(reference)));
  const unclaimedReleases = byRelease(unclaimed, [
    ...(ledger?.releases ?? []),
    ...bundles.map((bundle) => pinnedRelease(bundle, pinsIn(bundle))),
  ]);
  const shown = new Set(found);
  const wanted = new Set(claimed);
  const givenUp = (ledger?.givenUp ?? []).filter(
    (reference) => !wanted.has(reference) && (isUnseen || shown.has(reference)),
  );
  const record = { releases: unclaimedReleases.filter(isNamed), unclaimed, givenUp };
  return { claimed, unclaimed, unclaimedReleases, record, isUncertain: isUnseen && isDoubted };
}

export function isSameRecord(one: PinLedger, other: PinLedger): boolean {
  const textOf = ({ releases, unclaimed, givenUp }: PinLedger) => JSON.stringify([releases, unclaimed, givenUp]);
  return textOf(one) === textOf(other);
}

function pinnedRelease({ bundleId, payload }: StoredBundle, references: readonly string[]): PinnedRelease {
  return { bundleId, name: payload.name, version: payload.version, references };
}

function imagePinsIn({ contents }: StoredBundle): string[] {
  return uniqueSorted(contents.images.filter(({ pin }) => pin).map(({ reference }) => reference));
}

function pinsIn(bundle: StoredBundle): string[] {
  const { artifacts = [] } = bundle.contents;
  return uniqueSorted([...imagePinsIn(bundle), ...artifacts.map(({ reference }) => reference)]);
}

/** Each pin belongs to the first release that names it. */
function byRelease(unclaimed: readonly string[], releases: readonly PinnedRelease[]): readonly UnclaimedPins[] {
  const remaining = new Set(unclaimed);
  const named = releases.flatMap((release): UnclaimedPins[] => {
    const references = release.references.filter((reference) => remaining.delete(reference));
    return references.length === 0 ? [] : [{ ...release, references }];
  });
  return remaining.size === 0 ? named : [...named, { references: [...remaining] }];
}

function isNamed(pins: UnclaimedPins): pins is PinnedRelease {
  return pins.bundleId !== undefined;
}

function uniqueSorted(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}
