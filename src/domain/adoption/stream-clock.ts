import type { NodeFacts } from '../model/node-facts.ts';
import type { StoredBundle } from '../state/state.ts';
import { type ClockFault, clockFault } from '../time/clock-fault.ts';

/** What {@link streamClockFault} looks at. */
interface ClockContext {
  /** All that are known. */
  readonly bundles: readonly StoredBundle[];
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  readonly facts: Pick<NodeFacts, 'builtAt'>;
  readonly clockSynchronised: boolean;
}

/**
 * Why the clock can't be right, as far as the stream of a release tells: one stream says nothing
 * about the clock of another.
 */
export function streamClockFault(
  { payload }: Pick<StoredBundle, 'payload'>,
  { bundles, now, facts, clockSynchronised }: ClockContext,
): ClockFault | undefined {
  return clockFault(now, facts.builtAt, newestCreated(bundles, payload.name), clockSynchronised);
}

/**
 * The newest signed `created` of a stream, in milliseconds since the epoch. Of bundles that were
 * known when the stream was reset it does not count.
 */
function newestCreated(bundles: readonly StoredBundle[], stream: string): number | undefined {
  const times = bundles.flatMap(({ payload, resetAt }) =>
    payload.name === stream && resetAt === undefined ? [Date.parse(payload.created)] : [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}
