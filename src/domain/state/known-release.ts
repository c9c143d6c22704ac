import type { BundleId } from '../model/digest.ts';
import type { RuleCode } from '../model/rule-code.ts';

/**
 * What is recorded of an adopted bundle and can't be read from its documents: members of
 * `StoredBundle`. Times are milliseconds since the epoch.
 */
export interface KnownRelease {
  readonly bundleId: BundleId;
  readonly adoptedAt: number;
  readonly claimedAt?: number;
  readonly resetAt?: number;
  readonly readyAt?: number;
  readonly activationRequestedAt?: number;
  readonly activationOverrides?: readonly RuleCode[];
  readonly activatedAt?: number;
  readonly activeAt?: number;
  readonly provenAt?: number;
  readonly rolledBackAt?: number;
  readonly rolledBackReason?: string;
  /** It has no images: nothing of it is pinned. Default false. */
  readonly isNotice?: boolean;
}
