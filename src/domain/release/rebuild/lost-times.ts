import type { PinLedger } from '../../state/pin-ledger.ts';
import type { KnownRelease } from '../../state/release-record.ts';
import type { StoredBundle } from '../../state/state.ts';

/**
 * The bundles of a database that is an earlier copy, with what was recorded of them later. Each
 * time is the later one of the database and the pin ledger. A bundle to which the ledger adds
 * nothing is left out, and so is one that the database does not know.
 *
 * Without this, tags would go back to the release that was in force when the copy was made.
 */
export function withLostTimes(
  bundles: readonly StoredBundle[],
  ledger: Pick<PinLedger, 'known'> | undefined,
): readonly StoredBundle[] {
  const known = new Map((ledger?.known ?? []).map((one) => [one.bundleId, one]));
  return bundles.flatMap((bundle) => {
    const told = known.get(bundle.bundleId);
    const later = told === undefined ? {} : laterIn(bundle, told);
    return Object.keys(later).length === 0 ? [] : [{ ...bundle, ...later }];
  });
}

/** What the ledger has and the database has not, or has of an earlier time. */
function laterIn(bundle: StoredBundle, told: KnownRelease): Partial<StoredBundle> {
  const { resetAt, readyAt, activatedAt, activeAt, provenAt, activationRequestedAt, rolledBackAt, cancelled } = told;
  const { activationOverrides = [], rolledBackReason } = told;
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

function isLater(told: number | undefined, stored: number | undefined): told is number {
  return told !== undefined && told > (stored ?? Number.NEGATIVE_INFINITY);
}
