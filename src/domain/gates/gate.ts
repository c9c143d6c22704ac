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

/** One release in one round, as plain data. */
export interface GateContext {
  readonly bundle: StoredBundle;
  readonly bundles: readonly StoredBundle[];
  /** Of its stream, with the position of the node. */
  readonly path: PlannedPath;
  readonly policy: Policy;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  /** Undefined when nothing speaks against it. */
  readonly clockFault: ClockFault | undefined;
  readonly clockSynchronised: boolean;
  readonly facts: NodeFacts;
  /** Code of the reason why it is no longer trusted; undefined while it is. */
  readonly withdrawn: string | undefined;
  /** How many of its images the runtime lacks. */
  readonly absentImages: number;
  /** Undefined when images are never checked. */
  readonly contentChecks?: ContentChecks | undefined;
  readonly floors: Floors;
  readonly hooks: HookMemory;
  /** A tag of it that a release of another stream holds; undefined when none does. */
  readonly foreignTag: TagConflict | undefined;
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  /** Undefined when they are not known. */
  readonly imageUses: ImageUses | undefined;
  /** Undefined when the fleet process does not answer. */
  readonly fleet: FleetView | undefined;
}

/** The context of gates that hold an activation until a time. */
export type TimedContext = Pick<
  GateContext,
  'bundle' | 'policy' | 'now' | 'facts' | 'clockFault' | 'clockSynchronised'
>;

/** Values for the words of a hold. */
export type HoldData = Readonly<Record<string, string | number | boolean | undefined>>;

/** The words for it are in report/hold-text.ts. */
export interface Hold<Code extends string = string, Data extends HoldData = HoldData> {
  readonly code: Code;
  readonly data: Data;
  /** What ends it: a person, time alone, or another event on the node. */
  readonly releasedBy: 'person' | 'time' | 'event';
  /** When it may end, in milliseconds since the epoch; absent when time alone changes nothing. */
  readonly checkAgainAt?: number;
  /** The activation stays due and is only delayed. Default: while it is held, it is not due. */
  readonly keepsDue?: true;
}

/** `checkAgainAt` of a pass: when it may become a hold, in milliseconds since the epoch. */
export type GateVerdict<H extends Hold = Hold> =
  | { readonly kind: 'pass'; readonly checkAgainAt?: number }
  | { readonly kind: 'hold'; readonly hold: H };

/** A pure function. */
export type Gate<H extends Hold = Hold> = (context: GateContext) => GateVerdict<H>;

/** Nothing holds it, and time does not change that. */
export const PASS = { kind: 'pass' } as const;
