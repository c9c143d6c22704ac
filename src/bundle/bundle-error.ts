import { AppError, type Disposition } from '../platform/app-error.ts';

export type BundleErrorCode =
  | 'bundle/absent'
  | 'bundle/ambiguous'
  | 'bundle/incomplete'
  | 'bundle/misplaced'
  | 'bundle/crowded'
  | 'bundle/link'
  | 'bundle/envelope'
  | 'bundle/payload'
  | 'bundle/schema-version'
  | 'bundle/digest'
  | 'bundle/index'
  | 'bundle/layout'
  | 'bundle/contents'
  | 'bundle/inconsistent'
  | 'bundle/worker'
  | 'bundle/no-key'
  | 'bundle/revocations-unreadable'
  | 'bundle/revocation-record'
  | 'bundle/unsigned'
  | 'bundle/unknown-key'
  | 'bundle/bad-signature'
  | 'bundle/threshold'
  | 'bundle/revoked-key'
  | 'bundle/key-file'
  | 'bundle/passphrase'
  | 'bundle/signer'
  | 'bundle/role-file'
  | 'bundle/outside-role'
  | 'bundle/rotation'
  | 'bundle/option'
  | 'bundle/source'
  | 'bundle/tar'
  | 'bundle/target'
  | 'bundle/no-space'
  | 'bundle/skopeo'
  | 'bundle/registry'
  | 'bundle/tool'
  | 'bundle/stick'
  | 'bundle/warnings'
  | 'media/read'
  | 'media/gone';

/** The codes whose disposition is not `reject`. */
const DISPOSITIONS: Partial<Record<BundleErrorCode, Disposition>> = {
  'bundle/no-key': 'wait',
  'bundle/no-space': 'wait',
  'bundle/registry': 'retry',
  'bundle/revocation-record': 'wait',
  'bundle/revocations-unreadable': 'wait',
  'bundle/worker': 'retry',
  'media/gone': 'wait',
  'media/read': 'retry',
};

/** An {@link AppError} of this room. */
export function bundleError(
  code: BundleErrorCode,
  message: string,
  more: { readonly disposition?: Disposition; readonly cause?: unknown } = {},
): AppError<BundleErrorCode> {
  return new AppError({ code, message, disposition: DISPOSITIONS[code] ?? 'reject', ...more });
}
