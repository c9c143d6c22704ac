import type { Reason } from './reason.ts';

/** What a preload waits for. */
export type Hold = 'approval' | 'base' | 'space' | 'media' | 'runtime' | 'runtime-version' | 'cancelled';

/** The phase of a bundle, in the words that are shown everywhere. */
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

/** One row of the table of phases. */
interface PhaseRow {
  readonly phase: Phase;
  /** Phases that may follow. */
  readonly next: readonly Phase[];
}

/**
 * The table of phases. The diagram in the documentation is made from it; what each phase means is
 * in report/texts/release-text.ts.
 */
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

/** A phase with what explains it. */
export interface PhaseOf {
  readonly phase: Phase;
  /** Set when the phase is `held`. */
  readonly hold?: Hold;
  /** Why, for `rejected`, `held` and for anything that is degraded. */
  readonly reason?: Reason;
}
