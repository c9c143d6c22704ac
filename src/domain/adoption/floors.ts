import type { Floors } from '../state/release-record.ts';
import type { StoredBundle } from '../state/state.ts';

export const NO_FLOORS: Floors = { sequences: new Map(), newestCreated: new Map(), areLost: false };

/** Bundles from before a reset of their stream don't count. */
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

export function floorsNow(remembered: Floors, bundles: readonly StoredBundle[]): Floors {
  const { resets } = remembered;
  const own = floorsFrom(bundles);
  const all = higherFloors(remembered, { ...own, ...(resets !== undefined && { resets }) });
  // Streams that lost floors lack came back with rebuilt bundles.
  const doubted = remembered.areLost ? [...own.sequences.keys()].filter((name) => !remembered.sequences.has(name)) : [];
  return doubted.length === 0 ? all : { ...all, doubted: new Set([...(all.doubted ?? []), ...doubted]) };
}

/** The higher value of each stream. The side with more resets of a stream wins. */
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
  const doubted = new Set([...(one.doubted ?? []), ...(other.doubted ?? [])]);
  return {
    sequences,
    newestCreated,
    areLost: one.areLost || other.areLost,
    ...(doubted.size > 0 && { doubted }),
    ...(resets.size > 0 && { resets }),
  };
}

/** The floors without one stream. Its sequence is then known to be 0, even if floors are lost. */
export function withoutStream(floors: Floors, stream: string): Floors {
  const others = [...floors.newestCreated].filter(([name]) => name !== stream);
  const resets = new Map(floors.resets ?? []);
  resets.set(stream, (resets.get(stream) ?? 0) + 1);
  return {
    ...floors,
    sequences: new Map([...floors.sequences, [stream, 0]]),
    newestCreated: new Map(others),
    resets,
    ...withoutDoubt(floors, stream),
  };
}

export function withoutDoubt({ doubted }: Floors, stream: string): { readonly doubted?: ReadonlySet<string> } {
  return doubted === undefined ? {} : { doubted: new Set([...doubted].filter((name) => name !== stream)) };
}

export function areSameFloors(one: Floors, other: Floors): boolean {
  return (
    one.areLost === other.areLost &&
    isSame(one.sequences, other.sequences) &&
    isSame(one.newestCreated, other.newestCreated) &&
    isSame(one.resets ?? new Map(), other.resets ?? new Map()) &&
    isSame(counted(one.doubted), counted(other.doubted))
  );
}

/** Whether a release may be activated automatically: its floor is known, and it is not below it. */
export function isAboveFloor(bundle: Pick<StoredBundle, 'payload' | 'resetAt'>, floors: Floors): boolean {
  const { sequences, areLost, doubted } = floors;
  const { name } = bundle.payload;
  if (doubted?.has(name) === true) return false;
  const floor = sequences.get(name);
  return floor === undefined ? !areLost : sequenceOf(bundle) >= floor;
}

export interface Sequenced {
  readonly payload: Pick<StoredBundle['payload'], 'sequence'>;
  readonly resetAt?: number;
}

/** 0 when its stream was reset since. */
export function sequenceOf({ payload, resetAt }: Sequenced): number {
  return resetAt === undefined ? payload.sequence : 0;
}

function raise(values: Map<string, number>, stream: string, value: number): void {
  values.set(stream, Math.max(values.get(stream) ?? value, value));
}

function counted(names: ReadonlySet<string> | undefined): ReadonlyMap<string, number> {
  return new Map([...(names ?? [])].map((name) => [name, 1]));
}

function isSame(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): boolean {
  return one.size === other.size && [...one].every(([stream, value]) => other.get(stream) === value);
}
