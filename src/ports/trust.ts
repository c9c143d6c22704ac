import type { Revocations } from '../domain/trust/approval.ts';
import type { Role } from '../domain/trust/role.ts';
import type { TrustInForce } from '../domain/trust/trust-in-force.ts';

export interface TrustPort {
  /** Changes with the keys, the threshold or decisive approvals. */
  revision(): string;
  revocations(): Revocations;
  roles(): readonly Role[];
  /** The trust for display. */
  inForce(): TrustInForce;
}
