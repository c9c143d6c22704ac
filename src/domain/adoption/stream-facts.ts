import type { NodeFacts } from '../model/node-facts.ts';
import { schemeOf, type VersionScheme } from '../model/version.ts';
import type { StoredBundle } from '../state/state.ts';
import { isRelease } from '../trust/trust-in-force.ts';

interface ClockContext {
  readonly bundles: readonly StoredBundle[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly facts: Pick<NodeFacts, 'builtAt'>;
  readonly clockSynchronised: boolean;
}

/** Only the stream of a release speaks about its clock. */
export function streamClockFault(
  { payload }: Pick<StoredBundle, 'payload'>,
  { bundles, now, facts, clockSynchronised }: ClockContext,
): ClockFault | undefined {
  return clockFault(now, facts.builtAt, newestCreated(bundles, payload.name), clockSynchronised);
}

/** Milliseconds since the epoch. Bundles from before a reset of the stream don't count. */
function newestCreated(bundles: readonly StoredBundle[], stream: string): number | undefined {
  const times = bundles.flatMap(({ payload, resetAt }) =>
    payload.name === stream && resetAt === undefined ? [Date.parse(payload.created)] : [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * The first release settles the scheme of a stream (bundle format, "Versions"). Notices don't
 * count. Undefined while all versions fit both.
 *
 * @param bundles in the order of adoption
 */
export function streamScheme(bundles: readonly StoredBundle[], stream: string): VersionScheme | undefined {
  const releases = bundles.filter((known) => isRelease(known) && known.payload.name === stream);
  return schemeOf(releases.map(({ payload }) => payload));
}

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
