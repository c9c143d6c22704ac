import type { BundleId } from '../model/digest.ts';

/** The events of a release for which the settings may name a systemd unit (`[hooks]`). */
export const HOOK_NAMES = ['before-activate', 'ready', 'activated', 'proven', 'rolled-back', 'degraded'] as const;

/** One of {@link HOOK_NAMES}. */
export type HookName = (typeof HOOK_NAMES)[number];

/** One run of a hook: the unit that is started for one event of one release. */
export interface HookRun {
  readonly hook: HookName;
  /** A systemd service, as `k3s-install.service`. */
  readonly unit: string;
  readonly bundleId: BundleId;
  /**
   * Which event of the release it is for: the time that was recorded for it, in milliseconds since
   * the epoch. Of `before-activate`: when the activation was asked for, 0 where nobody did; of
   * `degraded`: 1.
   */
  readonly event: number;
}

/** A hook that runs now. */
export interface RunningHook extends HookRun {
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number;
}

/** Why a hook did not succeed. */
export type HookFailure =
  /** systemd knows no such unit. */
  | { readonly kind: 'absent' }
  /** The unit can't be loaded; `state` as in `LoadState`: `masked`, `bad-setting`, `error`. */
  | { readonly kind: 'not-loaded'; readonly state: string }
  /** The unit is active, so that starting it does nothing. */
  | { readonly kind: 'active' }
  /**
   * Its job ended so (`JobRemoved`); `result` and `status` are those of the service, where they are
   * known: `exit-code`, 1.
   */
  | { readonly kind: 'ended'; readonly job: string; readonly result?: string; readonly status?: number }
  /** systemd could not be asked, or its file could not be written. */
  | { readonly kind: 'unasked'; readonly message: string };

/** A hook that failed and is tried again. */
export interface FailedHook extends HookRun {
  readonly why: HookFailure;
  readonly attempts: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly retryAt: number;
}

/** What is recorded of one hook. */
export interface HookRecord {
  /** What follows was done by this unit. Another one begins again. */
  readonly unit: string;
  /** Of each release the event for which the hook has run last. */
  readonly done: ReadonlyMap<BundleId, number>;
  /** The last run, if it failed and is not tried again. */
  readonly failure?: { readonly bundleId: BundleId; readonly why: HookFailure; readonly at: number };
}

/** What is recorded of all hooks that have a unit. It outlives restarts of the daemon. */
export type HookLedger = ReadonlyMap<HookName, HookRecord>;

/** What the engine knows of hooks in one round. */
export interface HookMemory {
  readonly running: readonly RunningHook[];
  readonly failed: readonly FailedHook[];
  readonly ledger: HookLedger;
  /** Which release has its attached files in each folder. */
  readonly installed: ReadonlyMap<string, BundleId>;
  /** The condition `Degraded` of each release after the last round. */
  readonly degraded: ReadonlyMap<BundleId, 'True' | 'False' | 'Unknown'>;
}

/** No hook has run yet. */
export const NO_HOOKS: HookMemory = {
  running: [],
  failed: [],
  ledger: new Map(),
  installed: new Map(),
  degraded: new Map(),
};

/** Whether two runs are for the same event. */
export function isSameRun(one: HookRun, other: HookRun): boolean {
  return (
    one.hook === other.hook && one.unit === other.unit && one.bundleId === other.bundleId && one.event === other.event
  );
}
