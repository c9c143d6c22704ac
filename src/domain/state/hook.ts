import type { BundleId } from '../model/digest.ts';

/** The events for which the settings may name a systemd unit (`[hooks]`). */
export const HOOK_NAMES = ['before-activate', 'ready', 'activated', 'proven', 'rolled-back', 'degraded'] as const;

export type HookName = (typeof HOOK_NAMES)[number];

export interface HookRun {
  readonly hook: HookName;
  /** A systemd service, as `k3s-install.service`. */
  readonly unit: string;
  readonly bundleId: BundleId;
  /** Milliseconds since the epoch. `before-activate`: of the request, or 0; `degraded`: 1. */
  readonly event: number;
}

export interface RunningHook extends HookRun {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

export type HookFailure =
  | { readonly kind: 'absent' }
  /** `state` as in `LoadState`: `masked`, `bad-setting`, `error`. */
  | { readonly kind: 'not-loaded'; readonly state: string }
  | { readonly kind: 'active' }
  /** `job`: the result of `JobRemoved`; `result` and `status` of the service: `exit-code`, 1. */
  | { readonly kind: 'ended'; readonly job: string; readonly result?: string; readonly status?: number }
  /** systemd did not answer, or its file could not be written. */
  | { readonly kind: 'unasked'; readonly message: string };

export interface FailedHook extends HookRun {
  readonly why: HookFailure;
  readonly attempts: number;
  /** Milliseconds since the epoch. */
  readonly retryAt: number;
}

export interface HookRecord {
  /** Another unit begins a new record. */
  readonly unit: string;
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
