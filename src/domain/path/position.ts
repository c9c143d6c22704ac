import { sequenceOf } from '../adoption/floors.ts';
import type { BundleId } from '../model/digest.ts';
import { isProven, isRolledBack, keptBundles } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import type { Position } from './stream-path.ts';

/** What tells where a node is in a stream. */
export interface PositionInput {
  /** Adopted releases of the stream. */
  readonly releases: readonly StoredBundle[];
  /** Those that have running containers; undefined when nobody looked. */
  readonly running: ReadonlySet<BundleId> | undefined;
  /** The setting `streams.<name>.current`. */
  readonly configured: string | undefined;
}

/**
 * The present release of a stream: the one that was activated last and not rolled back. While it
 * has not proven itself, and containers run from another activated release and none from it, that
 * other one is. Where nothing was activated, the one that the settings name; else it is unknown.
 */
export function positionOf({ releases, running, configured }: PositionInput): Position | undefined {
  const activated = releases.filter((release) => release.activatedAt !== undefined && !isRolledBack(release));
  const kept = keptBundles(activated);
  const candidates = byActivation(kept.length > 0 ? kept : activated);
  const last = candidates[0];
  if (last === undefined) return configured === undefined ? undefined : configuredPosition(releases, configured);
  const runs = ({ bundleId }: StoredBundle) => running?.has(bundleId) === true;
  const other = isProven(last) || runs(last) ? undefined : candidates.find(runs);
  if (other === undefined) return placeOf(last, 'activated');
  return { ...placeOf(other, 'running'), activated: last.payload.version };
}

function byActivation(releases: readonly StoredBundle[]): readonly StoredBundle[] {
  return [...releases].sort((a, b) => (b.activatedAt ?? 0) - (a.activatedAt ?? 0));
}

function placeOf(release: StoredBundle, source: Position['source']): Position {
  const { version } = release.payload;
  const sequence = sequenceOf(release);
  // What runs in place of a newer one was proven before, or nothing is known against it.
  return { id: release.bundleId, version, sequence, isProven: isProven(release), source };
}

function configuredPosition(releases: readonly StoredBundle[], version: string): Position {
  const known = releases.filter(({ payload }) => payload.version === version).at(-1);
  const position = { version, isProven: true, source: 'setting' } as const;
  return known === undefined ? position : { ...position, id: known.bundleId, sequence: sequenceOf(known) };
}
