import type { FleetView } from '../fleet/node-status.ts';
import type { ImageUses } from '../model/image.ts';
import type { NodeFacts } from '../model/node-facts.ts';
import type { PlannedPath } from '../path/read-paths.ts';
import type { TagConflict } from '../release/tag-claims.ts';
import type { Policy } from '../settings/settings.ts';
import type { ContentChecks } from '../state/checks.ts';
import type { HookMemory } from '../state/hook.ts';
import type { RunningTask, TaskFailure } from '../state/memory.ts';
import type { Floors } from '../state/pin-ledger.ts';
import type { StoredBundle } from '../state/state.ts';
import type { ClockFault } from '../time/clock-fault.ts';

/** What gates look at: one release in one round, as plain data. */
export interface GateContext {
  readonly bundle: StoredBundle;
  /** All adopted bundles. */
  readonly bundles: readonly StoredBundle[];
  /** The update graph of its stream, and where the node is in it. */
  readonly path: PlannedPath;
  /** Settings. */
  readonly policy: Policy;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  /** Why the clock can't be right; undefined when nothing speaks against it. */
  readonly clockFault: ClockFault | undefined;
  readonly clockSynchronised: boolean;
  readonly facts: NodeFacts;
  /** Code of the reason why it is not trusted any more; undefined while it is. */
  readonly withdrawn: string | undefined;
  /** How many of its images the runtime lacks. */
  readonly absentImages: number;
  /** What is known of the content of images; undefined when it is never checked. */
  readonly contentChecks?: ContentChecks | undefined;
  readonly floors: Floors;
  readonly hooks: HookMemory;
  /** A tag of it that a release of another stream holds; undefined when none does. */
  readonly foreignTag: TagConflict | undefined;
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  /** Images that static pods and running containers ask for; undefined when that is not known. */
  readonly imageUses: ImageUses | undefined;
  /** What is known of the cluster; undefined when the fleet process does not answer. */
  readonly fleet: FleetView | undefined;
}

/** What gates look at that hold an activation until a time. */
export type TimedContext = Pick<
  GateContext,
  'bundle' | 'policy' | 'now' | 'facts' | 'clockFault' | 'clockSynchronised'
>;

/** Plain values that the words for a hold need. */
export type HoldData = Readonly<Record<string, string | number | boolean | undefined>>;

/** Why a gate holds an activation. The words for it are in report/hold-text.ts. */
export interface Hold<Code extends string = string, Data extends HoldData = HoldData> {
  readonly code: Code;
  readonly data: Data;
  /** Who or what ends it: a person, time alone, or something else that happens on the node. */
  readonly releasedBy: 'person' | 'time' | 'event';
  /**
   * When it may be over, in milliseconds since the epoch; absent when time alone changes nothing.
   */
  readonly lookAgainAt?: number;
  /** The activation stays due and is only delayed. Default: while it is held, it is not due. */
  readonly keepsDue?: true;
}

/**
 * The answer of one gate. `lookAgainAt` of a pass: when it may become a hold, in milliseconds since
 * the epoch.
 */
export type GateVerdict<H extends Hold = Hold> =
  | { readonly kind: 'pass'; readonly lookAgainAt?: number }
  | { readonly kind: 'hold'; readonly hold: H };

/** One thing that may hold an activation. A pure function. */
export type Gate<H extends Hold = Hold> = (context: GateContext) => GateVerdict<H>;

/** Nothing holds it, and time does not change that. */
export const PASS = { kind: 'pass' } as const;
