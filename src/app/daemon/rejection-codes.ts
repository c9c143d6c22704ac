import type { BundleErrorCode } from '../../bundle/bundle-error.ts';
import { LEFT_OUT } from '../../domain/fleet/node-status.ts';
import { REFUSAL_REASONS } from '../../domain/report/reasons/bundle-reasons.ts';

/**
 * Whether a bundle on a medium may be rejected for it; otherwise only its creation fails with it.
 */
const IS_REJECTION: Readonly<Record<BundleErrorCode, boolean>> = {
  'bundle/absent': true,
  'bundle/ambiguous': true,
  'bundle/incomplete': true,
  'bundle/misplaced': true,
  'bundle/crowded': true,
  'bundle/link': true,
  'bundle/envelope': true,
  'bundle/payload': true,
  'bundle/schema-version': true,
  'bundle/digest': true,
  'bundle/index': true,
  'bundle/layout': true,
  'bundle/contents': true,
  'bundle/inconsistent': true,
  'bundle/worker': true,
  'bundle/no-key': true,
  'bundle/revocations-unreadable': true,
  'bundle/revocation-record': true,
  'bundle/unsigned': true,
  'bundle/unknown-key': true,
  'bundle/bad-signature': true,
  'bundle/threshold': true,
  'bundle/revoked-key': true,
  'bundle/role-file': true,
  'bundle/outside-role': true,
  'bundle/rotation': true,
  'bundle/tar': true,
  'media/read': true,
  'media/gone': true,
  'bundle/key-file': false,
  'bundle/passphrase': false,
  'bundle/signer': false,
  'bundle/option': false,
  'bundle/source': false,
  'bundle/target': false,
  'bundle/no-space': false,
  'bundle/skopeo': false,
  'bundle/registry': false,
  'bundle/tool': false,
  'bundle/stick': false,
  'bundle/warnings': false,
};

/** Codes for which a bundle on a medium may be rejected, so that their counters begin at 0. */
export const REJECTION_CODES: readonly string[] = [
  ...Object.entries(IS_REJECTION).flatMap(([code, is]) => (is ? [code] : [])),
  ...Object.keys(REFUSAL_REASONS),
  LEFT_OUT,
];
