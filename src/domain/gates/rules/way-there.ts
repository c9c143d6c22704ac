import type { PlannedPath } from '../../path/read-paths.ts';
import type { StoredBundle } from '../../state/state.ts';

/** What a hold says of the turn of its release. */
interface AwaitedOnPath {
  /** The version of the release that is activated before it; absent when its turn does not come. */
  readonly after?: string;
}

/**
 * Whether the turn of a release comes by itself, once the releases before it on the path are
 * activated and proven; else only a person can end what holds it.
 */
export function awaitedOnPath(
  { route }: PlannedPath,
  { bundleId }: StoredBundle,
): { readonly data: AwaitedOnPath; readonly releasedBy: 'person' | 'event' } {
  const at = route.findIndex(({ id }) => id === bundleId);
  const before = route[at - 1];
  return before === undefined
    ? { data: {}, releasedBy: 'person' }
    : { data: { after: before.version }, releasedBy: 'event' };
}
