import type { BundleId } from '../model/digest.ts';
import type { HookName, NodeHook, ReleaseHook } from '../settings/hook-units.ts';

interface Run {
  /** A systemd service, such as `k3s-install.service`. */
  readonly unit: string;
  /** Milliseconds since the epoch. `before-activate`: the request's, or 0. `degraded`: 1. */
  readonly event: number;
}

export interface ReleaseRun extends Run {
  readonly hook: ReleaseHook;
  readonly bundleId: BundleId;
}

/** The lasting subject of a hook of the node. */
export interface NodeEvent {
  readonly hook: NodeHook;
  /** In two rounds with the same key the second brings no new event. */
  readonly key: string;
  /** The label, such as `sdb1`. */
  readonly medium?: string;
  readonly code?: string;
  readonly release?: { readonly bundleId: BundleId; readonly name: string; readonly version: string };
}

/** `event` is 1. */
export interface NodeRun extends Run, NodeEvent {}

export type HookRun = ReleaseRun | NodeRun;

/** The lasting events of each hook of the node. A hook without known events is missing. */
export type NodeEvents = ReadonlyMap<NodeHook, readonly NodeEvent[]>;

/** Returns the key of a run in a record. Hooks of releases use the release. */
export function keyOf(run: HookRun): string {
  return 'key' in run ? run.key : run.bundleId;
}

/** `startedAt` is in milliseconds since the epoch. */
export type RunningHook = HookRun & { readonly startedAt: number };

export type HookFailure =
  | { readonly kind: 'absent' }
  /** `state` is the `LoadState`: `masked`, `bad-setting`, `error`. */
  | { readonly kind: 'not-loaded'; readonly state: string }
  | { readonly kind: 'active' }
  /** No key of `streams.NAME.unit_keys` signed the release. */
  | { readonly kind: 'not-signed' }
  /** `job`: the result of `JobRemoved`. `result`, `status`: the service's (`exit-code`, 1). */
  | { readonly kind: 'ended'; readonly job: string; readonly result?: string; readonly status?: number }
  /** systemd did not answer, or its file could not be written. */
  | { readonly kind: 'unasked'; readonly message: string };

/** `retryAt` is in milliseconds since the epoch. */
export type FailedHook = HookRun & {
  readonly why: HookFailure;
  readonly attempts: number;
  readonly retryAt: number;
};

export interface HookRecord {
  /** Another unit begins a new record. */
  readonly unit: string;
  /** Keys are those of {@link keyOf}. */
  readonly done: ReadonlyMap<string, number>;
  /** Set when the last run failed and is not retried before a person asks for it. */
  readonly failure?: {
    readonly bundleId?: BundleId;
    readonly medium?: string;
    readonly why: HookFailure;
    readonly at: number;
  };
}

/** Records of all hooks that have a unit. They outlive restarts of the daemon. */
export type HookLedger = ReadonlyMap<HookName, HookRecord>;

export interface HookMemory {
  readonly running: readonly RunningHook[];
  readonly failed: readonly FailedHook[];
  readonly ledger: HookLedger;
  /** The release whose attached files are in each folder. */
  readonly installed: ReadonlyMap<string, BundleId>;
  /** The state after the last round. */
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
  return one.hook === other.hook && one.unit === other.unit && keyOf(one) === keyOf(other) && one.event === other.event;
}

/** @returns undefined for a run without a release */
export function releaseOfRun(run: HookRun): BundleId | undefined {
  return 'key' in run ? run.release?.bundleId : run.bundleId;
}
