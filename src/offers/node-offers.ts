import { createHash } from 'node:crypto';
import type { OfferedBundle } from '../domain/fleet/node-status.ts';
import type { BundleId, Digest } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { inOrder } from '../platform/async/concurrency.ts';
import { wireLimits } from './documents.ts';
import type { ChangingOffers, HeldBundle, HeldBundles } from './kept-bundles.ts';

export interface NodeOffersOptions {
  /** A blob is read from the first source that has it. */
  readonly sources: readonly HeldBundles[];
  readonly isOffered: (bundle: Pick<HeldBundle, 'bundleId' | 'name'>) => boolean;
}

const SIZES_AT_ONCE = 16;

/** With the sizes of the present blobs. */
interface Place {
  readonly held: HeldBundle;
  readonly sizes: ReadonlyMap<Digest, number>;
}

interface Shown {
  readonly places: ReadonlyMap<BundleId, readonly Place[]>;
  readonly offered: readonly OfferedBundle[];
}

interface NodeOffers extends NodeOffersOptions {
  /** Of unchanged bundles. */
  readonly sizes: WeakMap<HeldBundle, ReadonlyMap<Digest, number>>;
}

/**
 * Offers all bundles with a present layer, and envelopes. Each call of `offers` checks blobs again;
 * the other methods use its result until something changes.
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

/** Documents alone are useless: no image could be loaded from them. */
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
