import type { NodeFacts } from '../model/node-facts.ts';
import { schemeOf, type VersionScheme } from '../model/version.ts';
import type { StoredBundle } from '../state/state.ts';
import { type ClockFault, clockFault } from '../time/clock-fault.ts';
import { isRelease } from '../trust/trust-in-force.ts';

interface ClockContext {
  readonly bundles: readonly StoredBundle[];
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  readonly facts: Pick<NodeFacts, 'builtAt'>;
  readonly clockSynchronised: boolean;
}

/**
 * Why the clock can't be right by the stream of a release: one stream says nothing about the clock
 * of another.
 */
export function streamClockFault(
  { payload }: Pick<StoredBundle, 'payload'>,
  { bundles, now, facts, clockSynchronised }: ClockContext,
): ClockFault | undefined {
  return clockFault(now, facts.builtAt, newestCreated(bundles, payload.name), clockSynchronised);
}

/**
 * The newest signed `created` of a stream, in milliseconds since the epoch. Without bundles that
 * were known when the stream was reset.
 */
function newestCreated(bundles: readonly StoredBundle[], stream: string): number | undefined {
  const times = bundles.flatMap(({ payload, resetAt }) =>
    payload.name === stream && resetAt === undefined ? [Date.parse(payload.created)] : [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * The scheme of a stream, settled by its first release on the node (bundle format, "Versions");
 * undefined while the versions of all its releases fit both. The version of a notice names the
 * notice alone.
 *
 * @param bundles all adopted bundles, in the order in which they came to the node
 */
export function streamScheme(bundles: readonly StoredBundle[], stream: string): VersionScheme | undefined {
  const releases = bundles.filter((known) => isRelease(known) && known.payload.name === stream);
  return schemeOf(releases.map(({ payload }) => payload));
}
