import type { TrustReport } from '../../trust/trust-in-force.ts';

/** Who or what revoked a key: a file, `stickpin trust revoke`, or a bundle. */
export function revokerText({
  file,
  byPerson,
  revokedBy,
  role,
}: Omit<TrustReport['revoked'][number], 'keyId'>): string {
  if (file !== undefined) return file;
  if (byPerson) return 'stickpin trust revoke';
  if (revokedBy === undefined) return 'a file that is gone';
  return `bundle ${revokedBy}${role === undefined ? '' : `, in role ${role} only`}`;
}
