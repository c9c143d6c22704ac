import type { Assessment } from '../assess/assess.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';

/**
 * What a round saw, what the engine remembered then, and what was concluded. Everything that is
 * reported comes from here.
 */
export interface Snapshot {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly assessment: Assessment;
}
