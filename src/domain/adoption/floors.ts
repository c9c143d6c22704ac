import type { Floors } from '../state/floor-set.ts';
import type { StoredBundle } from '../state/state.ts';

/** Nothing was adopted yet. */
export const NO_FLOORS: Floors = { sequences: new Map(), newestCreated: new Map(), areLost: false };

/**
 * The floors that follow from what is stored of bundles. Those that were known when their stream was
 * reset don't count.
 */
export function floorsFrom(bundles: readonly StoredBundle[]): Floors {
  const sequences = new Map<string, number>();
  const newestCreated = new Map<string, number>();
  for (const { payload, activatedAt, resetAt } of bundles) {
    if (resetAt !== undefined) continue;
    raise(newestCreated, payload.name, Date.parse(payload.created));
    if (activatedAt !== undefined) raise(sequences, payload.name, payload.sequence);
  }
  return { sequences, newestCreated, areLost: false };
}

/** What is remembered, with what follows from the bundles: the higher value of each. */
export function floorsNow(remembered: Floors, bundles: readonly StoredBundle[]): Floors {
  const { resets } = remembered;
  return higherFloors(remembered, { ...floorsFrom(bundles), ...(resets !== undefined && { resets }) });
}

/**
 * Of two sets of floors the higher value of each counts. Of a stream that one of them has seen reset
 * more often, only that one counts.
 */
export function higherFloors(one: Floors, other: Floors): Floors {
  const resets = new Map<string, number>();
  for (const { resets: counts = [] } of [one, other])
    for (const [stream, count] of counts) raise(resets, stream, count);
  const sequences = new Map<string, number>();
  const newestCreated = new Map<string, number>();
  for (const floors of [one, other]) {
    const counts = (stream: string) => (floors.resets?.get(stream) ?? 0) === (resets.get(stream) ?? 0);
    for (const [stream, value] of floors.sequences) if (counts(stream)) raise(sequences, stream, value);
    for (const [stream, value] of floors.newestCreated) if (counts(stream)) raise(newestCreated, stream, value);
  }
  return { sequences, newestCreated, areLost: one.areLost || other.areLost, ...(resets.size > 0 && { resets }) };
}

/**
 * The floors with those of one stream taken away. Its sequence is known to be 0 then, also where
 * floors are lost.
 */
export function withoutStream(floors: Floors, stream: string): Floors {
  const others = [...floors.newestCreated].filter(([name]) => name !== stream);
  const resets = new Map(floors.resets ?? []);
  resets.set(stream, (resets.get(stream) ?? 0) + 1);
  return {
    ...floors,
    sequences: new Map([...floors.sequences, [stream, 0]]),
    newestCreated: new Map(others),
    resets,
  };
}

/** Whether two sets of floors say the same. */
export function areSameFloors(one: Floors, other: Floors): boolean {
  return (
    one.areLost === other.areLost &&
    isSame(one.sequences, other.sequences) &&
    isSame(one.newestCreated, other.newestCreated) &&
    isSame(one.resets ?? new Map(), other.resets ?? new Map())
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

/** The sequence by which a release is compared with others; 0 when its stream was reset since. */
export function sequenceOf({ payload, resetAt }: Pick<StoredBundle, 'payload' | 'resetAt'>): number {
  return resetAt === undefined ? payload.sequence : 0;
}

function raise(values: Map<string, number>, stream: string, value: number): void {
  values.set(stream, Math.max(values.get(stream) ?? value, value));
}

function isSame(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): boolean {
  return one.size === other.size && [...one].every(([stream, value]) => other.get(stream) === value);
}
