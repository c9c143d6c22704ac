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
export interface PhaseRow {
  readonly phase: Phase;
  /** For the documentation and `stickpin list --help`. */
  readonly meaning: string;
  /** Phases that may follow. */
  readonly next: readonly Phase[];
}

/**
 * The table of phases: what each means and what may follow. The diagram in the documentation is
 * made from it.
 */
export const PHASES: readonly PhaseRow[] = [
  {
    phase: 'detected',
    meaning: 'seen on a medium, not judged or not taken up yet',
    next: ['rejected', 'held', 'preloading', 'ready'],
  },
  {
    phase: 'rejected',
    meaning: 'may not be trusted or is malformed; the reason names the file, the field, the digest',
    next: ['detected', 'held', 'preloading'],
  },
  {
    phase: 'held',
    meaning: 'the preload must wait: approval, base, space, media, runtime or runtime-version, or was cancelled',
    next: ['rejected', 'preloading', 'ready', 'retired'],
  },
  { phase: 'preloading', meaning: 'images are being pulled', next: ['rejected', 'held', 'ready', 'retired'] },
  {
    phase: 'ready',
    meaning: 'every image is present by digest and reported pinned by the runtime',
    next: ['held', 'preloading', 'activated', 'retired'],
  },
  {
    phase: 'activated',
    meaning: 'its tags name its images; no evidence of running containers, or it was rolled back',
    next: ['active', 'proven', 'retired'],
  },
  {
    phase: 'active',
    meaning: 'containers run from the images that distinguish it',
    next: ['activated', 'proven', 'retired'],
  },
  {
    phase: 'proven',
    meaning: 'it has been active for the soak time: the last known good release',
    next: ['superseded', 'activated', 'retired'],
  },
  {
    phase: 'superseded',
    meaning: 'an older proven release, kept as the fallback',
    next: ['activated', 'retired'],
  },
  {
    phase: 'retired',
    meaning: 'unpinned, its own images removed unless that is switched off',
    next: ['preloading', 'ready', 'activated'],
  },
];

/** A phase with what explains it. */
export interface PhaseOf {
  readonly phase: Phase;
  /** Set when the phase is `held`. */
  readonly hold?: Hold;
  /** Why, for `rejected`, `held` and for anything that is degraded. */
  readonly reason?: Reason;
}
