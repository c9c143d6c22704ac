/** Why the clock of a node can't be right. Times are milliseconds since the epoch. */
export interface ClockFault {
  /** What is later than the clock: the program itself, or a bundle of the stream. */
  readonly kind: 'before-build' | 'before-bundle';
  /** The time that must have passed already. */
  readonly least: number;
}

/**
 * Why the clock can't be right; undefined when nothing speaks against it.
 *
 * @param now what the clock shows
 * @param builtAt when this program was built
 * @param newestCreated the newest signed `created` of the stream; undefined when there is none
 */
export function clockFault(now: number, builtAt: number, newestCreated: number | undefined): ClockFault | undefined {
  const least = Math.max(builtAt, newestCreated ?? Number.NEGATIVE_INFINITY);
  if (now >= least) return undefined;
  return { kind: least === builtAt ? 'before-build' : 'before-bundle', least };
}
