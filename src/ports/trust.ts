import type { Revocations } from '../domain/trust/approval.ts';
import type { Role } from '../domain/trust/role.ts';
import type { TrustInForce } from '../domain/trust/trust-in-force.ts';

/** The keys and rules by which bundles are judged. */
export interface TrustPort {
  /** A value that changes when the keys, the threshold or decisive approvals change. */
  revision(): string;
  /** The revoked keys. */
  revocations(): Revocations;
  /** What keys may sign that don't count for everything. */
  roles(): readonly Role[];
  /** The keys and rules in use, for display. */
  inForce(): TrustInForce;
}
