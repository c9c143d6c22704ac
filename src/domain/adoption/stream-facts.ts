import type { NodeFacts } from '../model/node-facts.ts';
import { schemeOf, type VersionScheme } from '../model/version.ts';
import type { StoredBundle } from '../state/state.ts';
import { type ClockFault, clockFault } from '../time/clock-fault.ts';
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
