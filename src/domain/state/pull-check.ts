import type { Fault } from '../model/reason.ts';

/** How a pull of an image that is present has ended. */
export type PullCheckEnd =
  /** `isProbe`: a probe from the same repository was pulled, since a pull takes pins away. */
  | { readonly kind: 'answered'; readonly isProbe?: boolean }
  /** The pull succeeded, and the runtime did not ask our registry: another one answered. */
  | { readonly kind: 'not-asked' }
  /** The pull succeeded, but our registry did not send the manifest: another one answered. */
  | { readonly kind: 'not-sent' }
  /**
   * `isAsked`: whether the runtime asked our registry at all; `isSent`: whether our registry sent
   * the manifest.
   */
  | { readonly kind: 'failed'; readonly reason: Fault; readonly isAsked: boolean; readonly isSent: boolean }
  | { readonly kind: 'timed-out'; readonly afterMs: number }
  /** The runtime did not answer, or was being stopped. */
  | { readonly kind: 'runtime-away'; readonly reason: Fault }
  /** The image was gone when the pull was to begin. */
  | { readonly kind: 'image-gone' };

/** The last pull that tested whether pulls are answered. */
export interface PullCheck {
  /** What was activated then: see `activationKey`. */
  readonly activation: string;
  /** By digest. */
  readonly reference: string;
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
  /**
   * How many there were since this activation or the start of the daemon, asked-for ones not
   * counted.
   */
  readonly attempts: number;
  readonly end: PullCheckEnd;
}

/** What the engine remembers of such pulls since its start. */
export interface PullChecks {
  readonly isRunning: boolean;
  readonly last: PullCheck | undefined;
}
