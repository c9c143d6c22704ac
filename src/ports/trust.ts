import type { Revocations } from '../domain/trust/key-rotation.ts';
import type { TrustInForce } from '../domain/trust/trust-in-force.ts';

/** The keys that count now. */
export interface TrustPort {
  /**
   * Changes whenever what a bundle on a medium is judged by does: the keys, the threshold,
   * approvals where they are enough.
   */
  revision(): string;
  /** The keys that never count. */
  revocations(): Revocations;
  /** All that bundles are judged by, to be shown. */
  inForce(): TrustInForce;
}
