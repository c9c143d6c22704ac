/** How far a `created` may be ahead of a synchronised clock (bundle format, `created`). */
export const CREATED_AHEAD_MS = 24 * 60 * 60 * 1000;

/** Times are milliseconds since the epoch. */
export interface ClockFault {
  /** `far-before-bundle`: by more than {@link CREATED_AHEAD_MS}, and the clock is synchronised. */
  readonly kind: 'before-build' | 'before-bundle' | 'far-before-bundle';
  readonly least: number;
}

/**
 * A bundle that is a little ahead of a synchronised clock proves nothing: the clock of its maker
 * was ahead.
 *
 * @param builtAt when this program was built
 * @param newestCreated the newest signed `created` of the stream
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
