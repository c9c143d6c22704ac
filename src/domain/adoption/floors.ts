import type { Floors } from '../state/floor-set.ts';
import type { StoredBundle } from '../state/state.ts';

/** Nothing was adopted yet. */
export const NO_FLOORS: Floors = { sequences: new Map(), newestCreated: 0, areLost: false };

/** The floors that follow from what is stored of bundles. */
export function floorsFrom(bundles: readonly StoredBundle[]): Floors {
  const sequences = new Map<string, number>();
  let newestCreated = 0;
  for (const { payload, activatedAt } of bundles) {
    newestCreated = Math.max(newestCreated, Date.parse(payload.created));
    if (activatedAt === undefined) continue;
    sequences.set(payload.name, Math.max(sequences.get(payload.name) ?? 0, payload.sequence));
  }
  return { sequences, newestCreated, areLost: false };
}

/** Of two sets of floors the higher value of each counts. */
export function higherFloors(one: Floors, other: Floors): Floors {
  const sequences = new Map(one.sequences);
  for (const [stream, sequence] of other.sequences) {
    sequences.set(stream, Math.max(sequences.get(stream) ?? 0, sequence));
  }
  const newestCreated = Math.max(one.newestCreated, other.newestCreated);
  return { sequences, newestCreated, areLost: one.areLost || other.areLost };
}

/** Whether two sets of floors say the same. */
export function areSameFloors(one: Floors, other: Floors): boolean {
  return (
    one.newestCreated === other.newestCreated &&
    one.areLost === other.areLost &&
    one.sequences.size === other.sequences.size &&
    [...one.sequences].every(([stream, sequence]) => other.sequences.get(stream) === sequence)
  );
}

/**
 * Whether a release may be activated without a person: it is not below its floor, and its floor is
 * known.
 */
export function isAboveFloor({ payload }: Pick<StoredBundle, 'payload'>, { sequences, areLost }: Floors): boolean {
  const floor = sequences.get(payload.name);
  return floor === undefined ? !areLost : payload.sequence >= floor;
}
