import type { ClockFault } from '../adoption/floors.ts';
import type { FleetView } from '../fleet/node-status.ts';
import type { Pause } from '../fleet/pause.ts';
import type { Sightings } from '../fleet/sightings.ts';
import type { ImageUses } from '../model/image.ts';
import type { NodeFacts } from '../model/machine.ts';
import type { TagConflict } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { ContentChecks } from '../state/checks.ts';
import type { HookMemory } from '../state/hook.ts';
import type { RunningTask, TaskFailure } from '../state/memory.ts';
import type { Floors } from '../state/release-record.ts';
import type { StoredBundle } from '../state/state.ts';
import type { PlannedPath } from './read-paths.ts';

export interface RuleContext {
  readonly bundle: StoredBundle;
  readonly path: PlannedPath;
  readonly policy: Policy;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly clockFault: ClockFault | undefined;
  readonly clockSynchronised: boolean;
  readonly facts: NodeFacts;
}

export interface GateContext extends RuleContext {
  readonly bundles: readonly StoredBundle[];
  readonly withdrawn: string | undefined;
  readonly absentImages: number;
  readonly contentChecks?: ContentChecks | undefined;
  readonly floors: Floors;
  readonly hooks: HookMemory;
  readonly foreignTag: TagConflict | undefined;
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  readonly imageUses: ImageUses | undefined;
  /** Undefined when the fleet process does not answer. */
  readonly fleet: FleetView | undefined;
  readonly pauses?: readonly Pause[] | undefined;
  readonly sightings?: Sightings | undefined;
}

/** Its text is in report/reasons/holds.ts. */
export interface Hold<Code extends string = string, Data = object> {
  readonly code: Code;
  readonly data: Data;
  readonly releasedBy: 'person' | 'time' | 'event';
  /** When it may end, in milliseconds since the epoch. Absent when time alone changes nothing. */
  readonly checkAgainAt?: number;
  /** The activation stays due and is only delayed. Default: a held activation is not due. */
  readonly keepsDue?: true;
}

/** `checkAgainAt` is when a pass may become a hold, in milliseconds since the epoch. */
export type GateVerdict<H extends Hold = Hold> =
  | { readonly kind: 'pass'; readonly checkAgainAt?: number }
  | { readonly kind: 'hold'; readonly hold: H };

export const PASS = { kind: 'pass' } as const;

export function held<const Code extends string, const Data extends object>(
  code: Code,
  data: Data,
  releasedBy: Hold['releasedBy'],
  more: Pick<Hold, 'checkAgainAt' | 'keepsDue'> = {},
): { readonly kind: 'hold'; readonly hold: Hold<Code, Data> } {
  return { kind: 'hold', hold: { code, data, releasedBy, ...more } };
}
