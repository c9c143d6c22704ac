/**
 * For how long the fleet process has looked for other nodes since its start. `new`: the Kubernetes
 * API and peers may not have answered yet. `long`: for `fleet.absent`.
 */
export const SEARCHES = ['new', 'short', 'long'] as const;

/** One of {@link SEARCHES}. */
export type Search = (typeof SEARCHES)[number];

/** The API server and peers answer within this time, or they are away. */
export const NEW_SEARCH_MS = 60_000;

/**
 * @param lookedMs the time since the start, by the monotonic clock
 * @param absentMs `fleet.absent`
 */
export function searchOf(lookedMs: number, absentMs: number): Search {
  if (lookedMs >= absentMs) return 'long';
  return lookedMs >= NEW_SEARCH_MS ? 'short' : 'new';
}
