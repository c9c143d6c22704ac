import { createHash } from 'node:crypto';
import type { OfferedBundle } from '../domain/fleet/node-status.ts';
import type { BundleId, Digest } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { inOrder } from '../platform/async/concurrency.ts';
import { wireLimits } from './documents.ts';
import type { ChangingOffers, HeldBundle, HeldBundles } from './kept-bundles.ts';

/** The options of {@link createNodeOffers}. */
export interface NodeOffersOptions {
  /** Where this node has bundles; a blob is read from the first that has it. */
  readonly sources: readonly HeldBundles[];
  /** Whether a bundle may be given to others now. */
  readonly isOffered: (bundle: Pick<HeldBundle, 'bundleId' | 'name'>) => boolean;
}

/** Number of sizes that are asked for at once. */
const SIZES_AT_ONCE = 16;

/** One place of a bundle, with the sizes of the blobs that are there. */
interface Place {
  readonly held: HeldBundle;
  readonly sizes: ReadonlyMap<Digest, number>;
}

/** All that is offered at one time. */
interface Shown {
  readonly places: ReadonlyMap<BundleId, readonly Place[]>;
  readonly offered: readonly OfferedBundle[];
}

interface NodeOffers extends NodeOffersOptions {
  /** Sizes of a bundle that did not change since. */
  readonly sizes: WeakMap<HeldBundle, ReadonlyMap<Digest, number>>;
}

/**
 * What this node offers: all bundles of its sources of which a layer is there, and envelopes. What
 * is there is looked at again with each call of `offers`; the other methods use the same look until
 * something changes.
 */
export function createNodeOffers(options: NodeOffersOptions): ChangingOffers {
  const node: NodeOffers = { ...options, sizes: new WeakMap() };
  let last: Shown | undefined;
  const shown = async (signal: AbortSignal): Promise<Shown> => {
    last ??= await look(node, signal);
    return last;
  };
  for (const source of options.sources) {
    source.onChange(() => {
      last = undefined;
    });
  }
  const placeOf = async (digest: Digest, signal: AbortSignal) => {
    const all = [...(await shown(signal)).places.values()].flat();
    return all.find(({ held, sizes }) => sizes.has(digest) && node.isOffered(held));
  };
  return {
    onChange: (listener) => {
      const stops = options.sources.map((source) => source.onChange(listener));
      return () => {
        for (const stop of stops) stop();
      };
    },
    offers: async (signal) => {
      last = await look(node, signal);
      return { bundles: last.offered };
    },
    file: async (bundleId, name, signal) => {
      const places = (await shown(signal)).places.get(bundleId) ?? [];
      for (const { held } of places.filter((place) => node.isOffered(place.held))) {
        const bytes = await held.reader.readFile(name, wireLimits.fileBytes[name], signal).catch(undefinedIfAbsent);
        if (bytes !== undefined) return bytes;
      }
      return undefined;
    },
    blobs: async (bundleId, signal) => {
      const places = (await shown(signal)).places.get(bundleId) ?? [];
      if (!places.some(({ held }) => node.isOffered(held))) return undefined;
      return new Map(places.flatMap(({ sizes }) => [...sizes]));
    },
    sizeOf: async (digest, signal) => (await placeOf(digest, signal))?.sizes.get(digest),
    async *read(digest, startByte, signal, allocate) {
      const place = await placeOf(digest, signal);
      if (place === undefined) throw notOffered(digest);
      yield* place.held.reader.read(digest, startByte, signal, allocate);
    },
  };
}

async function look(node: NodeOffers, signal: AbortSignal): Promise<Shown> {
  const places = new Map<BundleId, Place[]>();
  for (const source of node.sources) {
    for (const held of await source.list(signal)) {
      if (!node.isOffered(held)) continue;
      const place: Place = { held, sizes: await sizesOf(node, held, signal) };
      places.set(held.bundleId, [...(places.get(held.bundleId) ?? []), place]);
    }
  }
  for (const [bundleId, all] of places) if (!isWorthIt(all)) places.delete(bundleId);
  return { places, offered: [...places.values()].flatMap(offeredBundle) };
}

async function sizesOf(node: NodeOffers, held: HeldBundle, signal: AbortSignal): Promise<ReadonlyMap<Digest, number>> {
  const known = node.sizes.get(held);
  if (known !== undefined) return known;
  const wanted = [...held.blobs].filter(([digest]) => !held.missing.has(digest));
  const sizes = new Map<Digest, number>();
  const look = async ([digest, expected]: readonly [Digest, number | undefined]) => {
    const size = await held.reader.sizeOf(digest, signal).catch(() => undefined);
    return { digest, size: expected === undefined || size === expected ? size : undefined };
  };
  for await (const { digest, size } of inOrder(wanted, SIZES_AT_ONCE, look)) {
    if (size !== undefined) sizes.set(digest, size);
  }
  signal.throwIfAborted();
  node.sizes.set(held, sizes);
  return sizes;
}

/** The documents alone help nobody: whoever adopted the bundle could not load an image of it. */
function isWorthIt(places: readonly Place[]): boolean {
  return places.some(({ held, sizes }) => held.isEnvelope || [...held.layers].some((digest) => sizes.has(digest)));
}

function offeredBundle(places: readonly Place[]): readonly OfferedBundle[] {
  const [first] = places;
  if (first === undefined) return [];
  const { bundleId, name, version, sequence, blobs, contents } = first.held;
  const there = new Set(places.flatMap(({ sizes }) => [...sizes.keys()]));
  const isWhole = [...blobs.keys()].every((digest) => digest === contents || there.has(digest));
  const revision = createHash('sha256')
    .update([...there].sort().join())
    .digest('hex')
    .slice(0, 16);
  return [{ bundleId, name, version, sequence, isWhole, revision }];
}

function undefinedIfAbsent(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'bundle/absent') return undefined;
  throw error;
}

function notOffered(digest: Digest): AppError {
  return new AppError({ code: 'media/gone', message: `${digest} is not offered any more`, disposition: 'wait' });
}
