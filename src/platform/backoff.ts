/** Times are in milliseconds. */
export interface Pauses {
  readonly firstMs: number;
  readonly longestMs: number;
}

/**
 * The pause before the next try: the first one, doubled with each failure up to the longest one.
 *
 * @param failures in a row; 0 needs no pause
 */
export function pauseAfter(failures: number, { firstMs, longestMs }: Pauses): number {
  return failures < 1 ? 0 : Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 30));
}

/** Counts the failures in a row of one thing that is tried again and again. */
export class Backoff {
  private count = 0;

  constructor(private readonly pauses: Pauses) {}

  succeeded(): void {
    this.count = 0;
  }

  /** @returns the pause before the next try, in milliseconds */
  failed(): number {
    this.count += 1;
    return pauseAfter(this.count, this.pauses);
  }
}
