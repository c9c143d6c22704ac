import type { BundleId } from '../model/digest.ts';

/** The events for which the settings may name a systemd unit (`[hooks]`). */
export const HOOK_NAMES = ['before-activate', 'ready', 'activated', 'proven', 'rolled-back', 'degraded'] as const;

export type HookName = (typeof HOOK_NAMES)[number];

/** The unit that is started for one event of one release. */
export interface HookRun {
  readonly hook: HookName;
  /** A systemd service, as `k3s-install.service`. */
  readonly unit: string;
  readonly bundleId: BundleId;
  /**
   * The recorded time of the event, in milliseconds since the epoch. Of `before-activate`: the time
   * of the request, 0 without one; of `degraded`: 1.
   */
  readonly event: number;
}

export interface RunningHook extends HookRun {
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number;
}

export type HookFailure =
  /** systemd knows no such unit. */
  | { readonly kind: 'absent' }
  /** The unit can't be loaded; `state` as in `LoadState`: `masked`, `bad-setting`, `error`. */
  | { readonly kind: 'not-loaded'; readonly state: string }
  /** The unit is active: a start does nothing. */
  | { readonly kind: 'active' }
  /**
   * `job`: the result of `JobRemoved`; `result` and `status` are those of the service, where they
   * are known: `exit-code`, 1.
   */
  | { readonly kind: 'ended'; readonly job: string; readonly result?: string; readonly status?: number }
  /** systemd did not answer, or its file could not be written. */
  | { readonly kind: 'unasked'; readonly message: string };

export interface FailedHook extends HookRun {
  readonly why: HookFailure;
  readonly attempts: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly retryAt: number;
}

export interface HookRecord {
  /** The record is about this unit. Another one begins again. */
  readonly unit: string;
  /** The event of each release for which the hook has run last. */
  readonly done: ReadonlyMap<BundleId, number>;
  /** The last run, if it failed and is not retried. */
  readonly failure?: { readonly bundleId: BundleId; readonly why: HookFailure; readonly at: number };
}

/** Of all hooks that have a unit. It outlives restarts of the daemon. */
export type HookLedger = ReadonlyMap<HookName, HookRecord>;

export interface HookMemory {
  readonly running: readonly RunningHook[];
  readonly failed: readonly FailedHook[];
  readonly ledger: HookLedger;
  /** Which release has its attached files in each folder. */
  readonly installed: ReadonlyMap<string, BundleId>;
  /** After the last round. */
  readonly degraded: ReadonlyMap<BundleId, 'True' | 'False' | 'Unknown'>;
}

export const NO_HOOKS: HookMemory = {
  running: [],
  failed: [],
  ledger: new Map(),
  installed: new Map(),
  degraded: new Map(),
};

export function isSameRun(one: HookRun, other: HookRun): boolean {
  return (
    one.hook === other.hook && one.unit === other.unit && one.bundleId === other.bundleId && one.event === other.event
  );
}
