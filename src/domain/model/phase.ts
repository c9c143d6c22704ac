import type { Reason } from './reason.ts';

export type Hold = 'approval' | 'base' | 'space' | 'media' | 'runtime' | 'runtime-version' | 'cancelled';

/** These words are shown everywhere. */
export type Phase =
  | 'detected'
  | 'rejected'
  | 'held'
  | 'preloading'
  | 'ready'
  | 'activated'
  | 'active'
  | 'proven'
  | 'superseded'
  | 'retired';

interface PhaseRow {
  readonly phase: Phase;
  readonly next: readonly Phase[];
}

/** The diagram in the documentation is made from it. */
export const PHASES: readonly PhaseRow[] = [
  { phase: 'detected', next: ['rejected', 'held', 'preloading', 'ready'] },
  { phase: 'rejected', next: ['detected', 'held', 'preloading'] },
  { phase: 'held', next: ['rejected', 'preloading', 'ready', 'retired'] },
  { phase: 'preloading', next: ['rejected', 'held', 'ready', 'retired'] },
  { phase: 'ready', next: ['held', 'preloading', 'activated', 'retired'] },
  { phase: 'activated', next: ['active', 'proven', 'retired'] },
  { phase: 'active', next: ['activated', 'proven', 'retired'] },
  { phase: 'proven', next: ['superseded', 'activated', 'retired'] },
  { phase: 'superseded', next: ['activated', 'retired'] },
  { phase: 'retired', next: ['preloading', 'ready', 'activated'] },
];

export interface PhaseOf {
  readonly phase: Phase;
  readonly hold?: Hold;
  /** For `rejected`, `held` and for anything that is degraded. */
  readonly reason?: Reason;
}
