/** One pull over CRI. */
export interface CriPull {
  readonly image: string;
  /** By the clock of the machine that pulled. */
  readonly elapsedMs: number;
  /** Absent when the pull succeeded. */
  readonly failure?: string;
}
