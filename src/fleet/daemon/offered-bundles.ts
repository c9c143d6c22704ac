import { createHash } from 'node:crypto';
import { type Documents, documentsHere } from '../../bundle/documents/worker-documents.ts';
import type { Trust } from '../../bundle/keys/trust.ts';
import { openBundleDirectory } from '../../bundle/read/bundle-directory.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { judgeBundles } from '../../bundle/verify/judge-bundles.ts';
import type { OfferedBundle } from '../../domain/fleet/node-status.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { type HeldBundle, type HeldBundles, heldBundle } from '../../media/held-bundles.ts';
import { mediaError } from '../../media/media-provider.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { Cached } from '../../platform/async/cached.ts';
import { inOrder } from '../../platform/async/concurrency.ts';
import type { Log } from '../../platform/log.ts';
import { Observable, together, type Unsubscribe } from '../../platform/subscription.ts';
import type { BlobSource, ChangingBlobSource } from '../../ports/blobs.ts';
import { type OfferedFile, type OffersDocument, wireLimits } from '../wire/documents.ts';
import type { OfferedBundles } from '../wire/server.ts';

const SIZES_AT_ONCE = 16;

/** Where a bundle is, and the sizes of the blobs that are present. */
interface Place {
  readonly held: HeldBundle;
  readonly sizes: ReadonlyMap<Digest, number>;
}

interface Listing {
  readonly places: ReadonlyMap<BundleId, readonly Place[]>;
  readonly offered: readonly OfferedBundle[];
}

/**
 * Offers all bundles with a present layer, and envelopes. Each call of `offers` checks blobs again;
 * the other methods use its result until something changes.
 */
export class NodeOffers implements OfferedBundles {
  /** Sizes of blobs of unchanged bundles. */
  private readonly sizes = new WeakMap<HeldBundle, ReadonlyMap<Digest, number>>();
  private readonly listing = new Cached((signal) => this.list(signal));

  /** @param sources a blob is read from the first one that has it */
  constructor(
    private readonly sources: readonly HeldBundles[],
    private readonly isOffered: (bundle: HeldBundle) => boolean,
  ) {
    this.onChange(() => this.listing.invalidate());
  }

  onChange(listener: () => void): Unsubscribe {
    return together(this.sources.map((source) => source.onChange(listener)));
  }

  async offers(signal: AbortSignal): Promise<Pick<OffersDocument, 'bundles' | 'node'>> {
    this.listing.invalidate();
    return { bundles: (await this.listing.get(signal)).offered };
  }

  async file(bundleId: BundleId, name: OfferedFile, signal: AbortSignal): Promise<Buffer | undefined> {
    for (const { held } of await this.placesOf(bundleId, signal)) {
      const bytes = await held.reader.readFile(name, wireLimits.fileBytes[name], signal).catch(undefinedIfAbsent);
      if (bytes !== undefined) return bytes;
    }
    return undefined;
  }

  async blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined> {
    const places = await this.placesOf(bundleId, signal);
    return places.length === 0 ? undefined : new Map(places.flatMap(({ sizes }) => [...sizes]));
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return (await this.placeOfBlob(digest, signal))?.sizes.get(digest);
  }

  async *read(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    allocate?: Parameters<BlobSource['read']>[3],
  ): AsyncGenerator<Buffer, void, undefined> {
    const place = await this.placeOfBlob(digest, signal);
    if (place === undefined) throw notOffered(digest);
    yield* place.held.reader.read(digest, startByte, signal, allocate);
  }

  private async placesOf(bundleId: BundleId, signal: AbortSignal): Promise<readonly Place[]> {
    const places = (await this.listing.get(signal)).places.get(bundleId) ?? [];
    return places.filter(({ held }) => this.isOffered(held));
  }

  private async placeOfBlob(digest: Digest, signal: AbortSignal): Promise<Place | undefined> {
    const all = [...(await this.listing.get(signal)).places.values()].flat();
    return all.find(({ held, sizes }) => sizes.has(digest) && this.isOffered(held));
  }

  private async list(signal: AbortSignal): Promise<Listing> {
    const places = new Map<BundleId, Place[]>();
    for (const source of this.sources) {
      for (const held of await source.list(signal)) {
        if (!this.isOffered(held)) continue;
        const place: Place = { held, sizes: await this.sizesOf(held, signal) };
        places.set(held.bundleId, [...(places.get(held.bundleId) ?? []), place]);
      }
    }
    for (const [bundleId, all] of places) if (!isWorthIt(all)) places.delete(bundleId);
    return { places, offered: [...places.values()].flatMap(offeredBundle) };
  }

  private async sizesOf(held: HeldBundle, signal: AbortSignal): Promise<ReadonlyMap<Digest, number>> {
    const known = this.sizes.get(held);
    if (known !== undefined) return known;
    const wanted = [...held.blobs].filter(([digest]) => !held.missing.has(digest));
    const sizes = new Map<Digest, number>();
    const check = async ([digest, expected]: readonly [Digest, number | undefined]) => {
      const size = await held.reader.sizeOf(digest, signal).catch(() => undefined);
      return { digest, size: expected === undefined || size === expected ? size : undefined };
    };
    for await (const { digest, size } of inOrder(wanted, SIZES_AT_ONCE, check)) {
      if (size !== undefined) sizes.set(digest, size);
    }
    signal.throwIfAborted();
    this.sizes.set(held, sizes);
    return sizes;
  }
}

/** Documents alone are useless: no image could be loaded from them. */
function isWorthIt(places: readonly Place[]): boolean {
  return places.some(({ held, sizes }) => held.isEnvelope || [...held.layers].some((digest) => sizes.has(digest)));
}

function offeredBundle(places: readonly Place[]): readonly OfferedBundle[] {
  const [first] = places;
  if (first === undefined) return [];
  const { bundleId, name, version, sequence, blobs, contents } = first.held;
  const present = new Set(places.flatMap(({ sizes }) => [...sizes.keys()]));
  const isWhole = [...blobs.keys()].every((digest) => digest === contents || present.has(digest));
  const revision = createHash('sha256')
    .update([...present].sort().join())
    .digest('hex')
    .slice(0, 16);
  return [{ bundleId, name, version, sequence, isWhole, revision }];
}

function undefinedIfAbsent(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'bundle/absent') return undefined;
  throw error;
}

function notOffered(digest: Digest): AppError {
  return mediaError('media/gone', `${digest} is not offered any more`);
}

interface KeptBundlesOptions {
  readonly signed: { list(): Promise<ReadonlySet<BundleId>>; folderOf(bundleId: BundleId): string };
  /** On the node's own disk. */
  readonly documents: BlobSource;
  readonly layers: ChangingBlobSource;
  /** Blobs that the runtime still has. Default none. */
  readonly content?: BlobSource | undefined;
  readonly trust: () => { readonly trust: Trust; readonly revision: string };
  readonly parsers?: Documents;
  readonly log: Log;
}

/** Changes are collected: each one needs a check of all layers. */
const SETTLE_MS = 500;

/**
 * Bundles whose signed documents this node keeps, with all blobs on its own disk. Each one is
 * judged with the keys in force, as on a stick, when it is first listed and when the keys change.
 */
export class KeptBundles extends Observable implements HeldBundles {
  private readonly judged = new Map<BundleId, { readonly revision: string; readonly held: HeldBundle | undefined }>();
  /** The size of a document needs a read. */
  private readonly documentSizes = new Map<Digest, number>();
  /** Sizes of blobs in the runtime. */
  private readonly contentSizes = new Map<Digest, number>();
  private readonly current = new Cached(async (signal) => (await this.judgeAll(signal)).map((held) => ({ ...held })));
  private isDue = false;

  constructor(private readonly options: KeptBundlesOptions) {
    super();
    options.layers.onChange(() => this.changed(false));
  }

  /**
   * Call when images or bundles changed. @param isLost the runtime may have lost blobs: all are
   * checked again
   */
  changed(isLost: boolean): void {
    if (isLost) this.contentSizes.clear();
    if (this.isDue) return;
    this.isDue = true;
    setTimeout(() => {
      this.isDue = false;
      this.current.invalidate();
      this.notify();
    }, SETTLE_MS).unref();
  }

  list(signal: AbortSignal): Promise<readonly HeldBundle[]> {
    return this.current.get(signal);
  }

  private async judgeAll(signal: AbortSignal): Promise<readonly HeldBundle[]> {
    const ids = await this.options.signed.list().catch(() => new Set<BundleId>());
    for (const known of [...this.judged.keys()]) if (!ids.has(known)) this.judged.delete(known);
    const all: HeldBundle[] = [];
    for (const bundleId of ids) {
      const held = await this.judgeOnce(bundleId, signal);
      if (held !== undefined) all.push(held);
    }
    return all;
  }

  private async judgeOnce(bundleId: BundleId, signal: AbortSignal): Promise<HeldBundle | undefined> {
    const { trust, revision } = this.options.trust();
    const before = this.judged.get(bundleId);
    if (before?.revision === revision) return before.held;
    const held = await this.judge(bundleId, trust, signal);
    this.judged.set(bundleId, { revision, held });
    return held;
  }

  private async judge(bundleId: BundleId, trust: Trust, signal: AbortSignal): Promise<HeldBundle | undefined> {
    const { signed, parsers = documentsHere, log } = this.options;
    const path = signed.folderOf(bundleId);
    const folder = openBundleDirectory(path);
    const reader: BundleReader = { path, hold: (run) => run(), readFile: folder.readFile, ...this.ownBlobs() };
    try {
      const [found] = await judgeBundles([{ kind: 'bundle', path, reader }], { trust, documents: parsers }, signal);
      // Layers come and go, so missing ones mean nothing; nor do they make an envelope of a bundle
      // whose documents are stored like those of one.
      if (found?.kind === 'verified') return heldBundle({ ...found, missing: [], isEnvelope: false }, reader);
      const why = found?.kind === 'rejected' ? found.reason.message : 'it waits for an approval';
      log.debug({ bundleId }, `Offers: a kept bundle is not offered: ${why}`);
    } catch (error) {
      signal.throwIfAborted();
      log.debug({ bundleId, err: error }, `Offers: a kept bundle is not offered: ${reasonOf(error)}`);
    }
    return undefined;
  }

  /** Documents, kept layers, then what the runtime has. */
  private ownBlobs(): BlobSource {
    const { documents, layers, content } = this.options;
    const { documentSizes, contentSizes } = this;
    const sources = content === undefined ? [documents, layers] : [documents, layers, content];
    return {
      sizeOf: async (digest, signal) => {
        const size = await layers.sizeOf(digest, signal);
        return (
          size ??
          (await sizeOnce(documents, documentSizes, digest, signal)) ??
          (content && sizeOnce(content, contentSizes, digest, signal))
        );
      },
      async *read(digest, startByte, signal, allocate) {
        for (const source of sources) {
          if ((await source.sizeOf(digest, signal)) === undefined) continue;
          yield* source.read(digest, startByte, signal, allocate);
          return;
        }
        documentSizes.delete(digest);
        contentSizes.delete(digest);
        throw mediaError('media/gone', `${digest} is not kept any more`);
      },
    };
  }
}

/** Each size is read once. */
async function sizeOnce(
  source: BlobSource,
  sizes: Map<Digest, number>,
  digest: Digest,
  signal: AbortSignal,
): Promise<number | undefined> {
  const size = sizes.get(digest) ?? (await source.sizeOf(digest, signal));
  if (size !== undefined) sizes.set(digest, size);
  return size;
}
