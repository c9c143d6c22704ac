import { onceFor } from '../../platform/once-for.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { NodeFacts } from '../model/machine.ts';
import { schemeOf, type VersionScheme } from '../model/version.ts';
import type { Floors } from '../state/release-record.ts';
import { ofStream, type StoredBundle } from '../state/state.ts';
import { isRelease } from '../trust/trust-in-force.ts';

export const NO_FLOORS: Floors = { sequences: new Map(), newestCreated: new Map(), areLost: false };

/** Bundles that are older than a reset of their stream don't count. */
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
  const fromBundles = floorsFrom(bundles);
  const all = higherFloors(remembered, { ...fromBundles, ...(resets !== undefined && { resets }) });
  // Rebuilt bundles brought back streams that are missing from the lost floors.
  const doubted = remembered.areLost
    ? [...fromBundles.sequences.keys()].filter((name) => !remembered.sequences.has(name))
    : [];
  return doubted.length === 0 ? all : { ...all, doubted: new Set([...(all.doubted ?? []), ...doubted]) };
}

/** Returns the higher value of each stream. The side with more resets of a stream wins. */
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

/** Removes one stream from the floors. Its sequence then counts as 0, even if floors are lost. */
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

/** `areLost` makes the rest a lower bound only. */
export function loseFloors(floors: Floors, areLost: boolean): Floors {
  if (!areLost) return floors;
  const doubted = new Set([...(floors.doubted ?? []), ...floors.sequences.keys()]);
  return { ...floors, areLost, ...(doubted.size > 0 && { doubted }) };
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

/** Whether a release may be activated automatically: its floor is known and not above it. */
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

/** @returns 0 when the stream was reset since */
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

interface ClockContext {
  readonly bundles: readonly StoredBundle[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly facts: Pick<NodeFacts, 'builtAt'>;
  readonly clockSynchronised: boolean;
}

/** Only bundles of the same stream prove that the clock of a release is wrong. */
export function streamClockFault(
  { payload }: StoredBundle,
  { bundles, now, facts, clockSynchronised }: ClockContext,
): ClockFault | undefined {
  return clockFault(now, facts.builtAt, newestCreated(ofStream(bundles, payload.name)), clockSynchronised);
}

/** Milliseconds since the epoch. Bundles that are older than a reset of the stream don't count. */
const newestCreated = onceFor((bundles: readonly StoredBundle[]): number | undefined => {
  const times = bundles.flatMap(({ payload, resetAt }) => (resetAt === undefined ? [Date.parse(payload.created)] : []));
  return times.length === 0 ? undefined : Math.max(...times);
});

/**
 * The first release settles the scheme of a stream (bundle format, "Versions"). Notices don't
 * count. Undefined while all versions fit both.
 *
 * @param bundles in the order of adoption
 */
export function streamScheme(bundles: readonly StoredBundle[], stream: string): VersionScheme | undefined {
  const releases = ofStream(bundles, stream).filter(isRelease);
  return schemeOf(releases.map(({ payload }) => payload));
}

type Known = VerifiedBundle & Pick<StoredBundle, 'activatedAt' | 'resetAt'>;

/** The facts of one stream's known bundles that decide about a further one. */
class KnownStream {
  /** See {@link streamScheme}. */
  scheme: VersionScheme | undefined;
  /** Excludes bundles that are older than a reset of the stream. */
  readonly bySequence = new Map<number, Known>();
  highest = 0;
  lowest = Number.POSITIVE_INFINITY;

  /**
   * @param floor an activation raises it, an adoption does not (docs/decisions/trust.md)
   * @param newestCreated in milliseconds since the epoch
   */
  constructor(
    public floor: number,
    public newestCreated: number,
  ) {}

  add(bundle: Known): void {
    const { payload, activatedAt, resetAt } = bundle;
    const { sequence } = payload;
    if (isRelease(bundle)) this.scheme ??= schemeOf([payload]);
    if (resetAt !== undefined) return;
    if (!this.bySequence.has(sequence)) this.bySequence.set(sequence, bundle);
    if (activatedAt !== undefined) this.floor = Math.max(this.floor, sequence);
    this.newestCreated = Math.max(this.newestCreated, Date.parse(payload.created));
    this.highest = Math.max(this.highest, sequence);
    this.lowest = Math.min(this.lowest, sequence);
  }
}

/** INVARIANT: a query costs the same for any number of known bundles. */
export class KnownBundles {
  private readonly streams = new Map<string, KnownStream>();
  private readonly byId = new Map<BundleId, Known>();

  /** @param bundles in the order of adoption */
  constructor(
    bundles: readonly StoredBundle[],
    private readonly floors: Floors = NO_FLOORS,
  ) {
    for (const bundle of bundles) this.add(bundle);
  }

  get(bundleId: BundleId): VerifiedBundle | undefined {
    return this.byId.get(bundleId);
  }

  stream(name: string): Readonly<KnownStream> {
    const { sequences, newestCreated } = this.floors;
    return this.streams.get(name) ?? new KnownStream(sequences.get(name) ?? 0, newestCreated.get(name) ?? 0);
  }

  add(bundle: Known): void {
    const { name } = bundle.payload;
    const stream = this.stream(name);
    this.streams.set(name, stream);
    stream.add(bundle);
    this.byId.set(bundle.bundleId, bundle);
  }
}

/** How far a `created` may be ahead of a synchronised clock (bundle format, `created`). */
export const CREATED_AHEAD_MS = 24 * 60 * 60 * 1000;

/** Times are milliseconds since the epoch. */
export interface ClockFault {
  /** `far-before-bundle` is more than {@link CREATED_AHEAD_MS}, with a synchronised clock. */
  readonly kind: 'before-build' | 'before-bundle' | 'far-before-bundle';
  readonly least: number;
}

/**
 * A bundle that is a little ahead of a synchronised clock proves nothing: its maker's clock may
 * have been ahead.
 *
 * @param builtAt when this program was built
 * @param newestCreated the newest signed `created` of the stream
 */
export function clockFault(
  now: number,
  builtAt: number,
  newestCreated: number | undefined,
  isSynchronised = false,
): ClockFault | undefined {
  const ahead = isSynchronised ? CREATED_AHEAD_MS : 0;
  const least = Math.max(builtAt, newestCreated === undefined ? Number.NEGATIVE_INFINITY : newestCreated - ahead);
  if (now >= least) return undefined;
  if (least === builtAt) return { kind: 'before-build', least };
  return { kind: isSynchronised ? 'far-before-bundle' : 'before-bundle', least };
}
