import type { Advisory } from '../../model/bundle.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName } from '../../trust/approval.ts';
import type { ShownReason } from '../reasons/reason-text.ts';
import { rejectedNameText } from '../reasons/trust-text.ts';

/** An adopted bundle without images. */
export interface NoticeReport {
  readonly bundleId: string;
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  readonly signedBy: readonly string[];
  readonly signerKeyIds?: readonly string[];
  /** RFC 3339. */
  readonly adoptedAt: string;
  readonly advisories: readonly Advisory[];
  readonly reason?: ShownReason;
}

/** A release that a person rejected by name. */
export interface RejectedNameReport {
  readonly name: string;
  readonly version: string;
  /** RFC 3339. */
  readonly since: string;
  readonly reason: ShownReason;
}

/** `reason`: why it is not in force, if it is not. */
export function noticeReport(bundle: StoredBundle, reason: ShownReason | undefined): NoticeReport {
  const { bundleId, payload, signedBy, signerKeyIds } = bundle;
  return {
    bundleId,
    name: payload.name,
    version: payload.version,
    sequence: payload.sequence,
    signedBy,
    ...(signerKeyIds !== undefined && { signerKeyIds }),
    adoptedAt: new Date(bundle.adoptedAt).toISOString(),
    advisories: payload.advisories ?? [],
    ...(reason !== undefined && { reason }),
  };
}

/** The person's own words are part of the reason. */
export function rejectedNameReport({ name, version, at, reason }: RejectedName): RejectedNameReport {
  const message = rejectedNameText({ name, version }, reason);
  return { name, version, since: new Date(at).toISOString(), reason: { code: 'trust/rejected', message } };
}
