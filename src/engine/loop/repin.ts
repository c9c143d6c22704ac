import { isDigest } from '../../domain/model/digest.ts';
import { pinnedNames } from '../../domain/release/pulls.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Loop } from './loop.ts';

/** The pin is lost at the end of the pull, which takes less than a second of a present image. */
const SETTLED_MS = 2_000;

const namesOf = new WeakMap<Snapshot, ReadonlySet<string>>();

/**
 * Call after each request for a manifest. A pull of a pinned image by others may take its pin away,
 * so a round pins it again soon. One round serves all requests, and one more those shortly before
 * it. What the engine pulls itself is followed by a round anyway.
 * @param path the mirror path of the repository
 * @param reference a digest or a tag
 */
export function followRequest(
  { context, state, tasks, pullChecker, wake }: Pick<Loop, 'context' | 'state' | 'tasks' | 'pullChecker' | 'wake'>,
  path: string,
  reference: string,
): void {
  const { snapshot } = state;
  if (snapshot === undefined || tasks.running().length > 0 || pullChecker.checks().isRunning) return;
  const name = `${path}${isDigest(reference) ? '@' : ':'}${reference}`;
  if (!namesIn(snapshot).has(name)) return;
  state.pullsSettledAt = context.clock.monotonic() + SETTLED_MS;
  wake.kickAt(state.pullsSettledAt);
}

/** A round may begin before the newest of these pulls ends: another one follows then. */
export function followRound({ state, wake }: Pick<Loop, 'state' | 'wake'>): void {
  if (state.pullsSettledAt > state.lastRound.at) wake.kickAt(state.pullsSettledAt);
}

function namesIn(snapshot: Snapshot): ReadonlySet<string> {
  const known = namesOf.get(snapshot);
  if (known !== undefined) return known;
  const bundles = snapshot.assessment.bundles.map(({ bundle }) => bundle);
  const names = pinnedNames(snapshot.observed.runtime, bundles);
  namesOf.set(snapshot, names);
  return names;
}
