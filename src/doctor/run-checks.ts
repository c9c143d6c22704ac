import { setMaxListeners } from 'node:events';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import type { Check } from './check.ts';

/**
 * No look at a node that works takes this long, however slow and busy it is; a runtime or a bus
 * that hangs must not keep the others from being told.
 */
const LOOK_MS = 30_000;

/**
 * Does all checks at once and returns what they found in their order. One that fails or hangs is a
 * fault of its own. Throws only on abort.
 */
export async function runChecks(
  checks: readonly Check[],
  signal: AbortSignal,
  lookMs = LOOK_MS,
): Promise<readonly Finding[]> {
  // Every look listens to it, and beyond ten Node warns of a leak on stderr.
  setMaxListeners(0, signal);
  const found = await Promise.all(
    checks.map(async ({ subject, remedy, look }): Promise<readonly Finding[]> => {
      try {
        return await withDeadline(`The look at ${subject}`, lookMs, signal, look);
      } catch (error) {
        signal.throwIfAborted();
        return [findingsOn(subject).fault(`could not be looked at: ${reasonOf(error)}`, remedy)];
      }
    }),
  );
  return found.flat();
}
