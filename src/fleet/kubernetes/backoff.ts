import { isKubernetesError } from './api-error.ts';

const FIRST_MS = 1_000;
const LONGEST_MS = 60_000;

/**
 * How long to wait after a failure, in milliseconds: 1 s, doubled with each failure in a row up to
 * 60 s, less up to a half by chance, so that the nodes of a cluster don't come together. Never less
 * than the API asked for.
 *
 * @param failures in a row, 1 or more
 * @param random 0 to 1
 */
export function backoffMs(failures: number, error: unknown, random: number): number {
  const asked = isKubernetesError(error) ? (error.retryAfterMs ?? 0) : 0;
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 10));
  const own = full * (1 - random / 2);
  // Later than asked for by chance, too.
  return asked === 0 ? own : Math.max(own, asked * (1 + random / 10));
}
