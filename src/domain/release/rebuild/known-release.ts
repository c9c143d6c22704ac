import type { KnownRelease } from '../../state/release-record.ts';
import type { StoredBundle } from '../../state/state.ts';

/** What is to be remembered of a bundle beside the database. */
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
