/**
 * How far the `created` of a bundle may be ahead of a synchronised clock (bundle format,
 * `created`).
 */
export const CREATED_AHEAD_MS = 24 * 60 * 60 * 1000;

/** Times are milliseconds since the epoch. */
export interface ClockFault {
  /**
   * What is later than the clock: the program itself, or a bundle of the stream;
   * `far-before-bundle`: the bundle is later by more than {@link CREATED_AHEAD_MS}, and the clock
   * is synchronised.
   */
  readonly kind: 'before-build' | 'before-bundle' | 'far-before-bundle';
  /** The time that must have passed already. */
  readonly least: number;
}

/**
 * Undefined when nothing speaks against the clock. A bundle that was adopted although it is a
 * little ahead of a synchronised clock says nothing against that clock: the clock of its maker was
 * ahead.
 *
 * @param builtAt when this program was built
 * @param newestCreated the newest signed `created` of the stream; undefined when there is none
 * @param isSynchronised default false, also where that is unknown
 */
export function clockFault(
  now: number,
  builtAt: number,
  newestCreated: number | undefined,
  isSynchronised = false,
): ClockFault | undefined {
  const ahead = isSynchronised ? CREATED_AHEAD_MS : 0;
  const least = Math.max(builtAt, newestCreated === undefined ? Number.NEGATIVE_INFINITY : newestCreated - ahead);
  if (now >= least) return undefined;
  if (least === builtAt) return { kind: 'before-build', least };
  return { kind: isSynchronised ? 'far-before-bundle' : 'before-bundle', least };
}
