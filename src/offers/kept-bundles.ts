import { type Documents, documentsHere } from '../bundle/documents/worker-documents.ts';
import type { Trust } from '../bundle/keys/trust.ts';
import { openBundleDirectory } from '../bundle/read/bundle-directory.ts';
import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import { judgeBundles } from '../bundle/verify/judge-bundles.ts';
import type { BundleId, Digest } from '../domain/model/digest.ts';
import { type FoundBundle, isFaulty } from '../domain/model/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Log } from '../platform/log.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../platform/subscription.ts';
import type { BlobSource, ChangingBlobSource } from '../ports/blobs.ts';
import type { OfferedFile, OffersDocument } from './documents.ts';

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

/** Bundles whose signed documents this node keeps, with all blobs on its own disk. */
export interface KeptBundles extends HeldBundles {
  /**
   * Call when images or bundles changed. @param isLost the runtime may have lost blobs: all are
   * checked again
   */
  changed(isLost: boolean): void;
}

/** Changes are collected: each one needs a check of all layers. */
const SETTLE_MS = 500;

interface Kept extends KeptBundlesOptions {
  readonly judged: Map<BundleId, { readonly revision: string; readonly held: HeldBundle | undefined }>;
  /** The size of a document needs a read. */
  readonly documentSizes: Map<Digest, number>;
  /** Sizes of blobs in the runtime. */
  readonly contentSizes: Map<Digest, number>;
}

/**
 * Each bundle is judged with the keys in force, as on a stick, when it is first listed and when the
 * keys change.
 */
export function createKeptBundles(options: KeptBundlesOptions): KeptBundles {
  const kept: Kept = { ...options, judged: new Map(), documentSizes: new Map(), contentSizes: new Map() };
  const listeners: Listeners = new Set();
  let current: readonly HeldBundle[] | undefined;
  let isDue = false;
  const take = () => {
    isDue = false;
    current = undefined;
    notifyAll(listeners);
  };
  const changed = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(take, SETTLE_MS).unref();
  };
  options.layers.onChange(changed);
  return {
    changed: (isLost) => {
      if (isLost) kept.contentSizes.clear();
      changed();
    },
    onChange: (listener) => listen(listeners, listener),
    list: async (signal) => {
      current ??= (await heldNow(kept, signal)).map((held) => ({ ...held }));
      return current;
    },
  };
}

async function heldNow(kept: Kept, signal: AbortSignal): Promise<readonly HeldBundle[]> {
  const ids = await kept.signed.list().catch(() => new Set<BundleId>());
  for (const known of [...kept.judged.keys()]) if (!ids.has(known)) kept.judged.delete(known);
  const all: HeldBundle[] = [];
  for (const bundleId of ids) {
    const held = await judgedOnce(kept, bundleId, signal);
    if (held !== undefined) all.push(held);
  }
  return all;
}

async function judgedOnce(kept: Kept, bundleId: BundleId, signal: AbortSignal): Promise<HeldBundle | undefined> {
  const { trust, revision } = kept.trust();
  const before = kept.judged.get(bundleId);
  if (before?.revision === revision) return before.held;
  const held = await judge(kept, bundleId, trust, signal);
  kept.judged.set(bundleId, { revision, held });
  return held;
}

async function judge(kept: Kept, bundleId: BundleId, trust: Trust, signal: AbortSignal) {
  const path = kept.signed.folderOf(bundleId);
  const folder = openBundleDirectory(path);
  const blobs = ownBlobs(kept);
  const reader: BundleReader = { path, hold: (run) => run(), readFile: folder.readFile, ...blobs };
  try {
    const options = { trust, documents: kept.parsers ?? documentsHere };
    const [found] = await judgeBundles([{ kind: 'bundle', path, reader }], options, signal);
    // Layers come and go, so missing ones mean nothing; nor do they make an envelope of a bundle
    // whose documents are stored like those of one.
    if (found?.kind === 'verified') return heldBundle({ ...found, missing: [], isEnvelope: false }, reader);
    const why = found?.kind === 'rejected' ? found.reason.message : 'it waits for an approval';
    kept.log.debug({ bundleId }, `Offers: a kept bundle is not offered: ${why}`);
  } catch (error) {
    signal.throwIfAborted();
    kept.log.debug({ bundleId, err: error }, `Offers: a kept bundle is not offered: ${reasonOf(error)}`);
  }
  return undefined;
}

/** Documents, kept layers, then what the runtime has. */
function ownBlobs({ documents, documentSizes, layers, content, contentSizes }: Kept): BlobSource {
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
      throw new AppError({ code: 'media/gone', message: `${digest} is not kept any more`, disposition: 'wait' });
    },
  };
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

/** A verified bundle of this node that may be offered, or a part of one. */
export interface HeldBundle {
  readonly bundleId: Digest;
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  /** Carried by the bundle itself; sizes in bytes where known. */
  readonly blobs: ReadonlyMap<Digest, number | undefined>;
  /** Of `contents.json`, which need not be among the blobs: it may be beside them. */
  readonly contents: Digest;
  readonly layers: ReadonlySet<Digest>;
  /** Missing or bad. */
  readonly missing: ReadonlySet<Digest>;
  /** Made without layers. */
  readonly isEnvelope: boolean;
  /** A blob is present when its size is right. */
  readonly reader: Pick<BundleReader, 'readFile' | 'sizeOf' | 'read'>;
}

export interface HeldBundles {
  /** A changed bundle is another object. Never throws but an abort. */
  list(signal: AbortSignal): Promise<readonly HeldBundle[]>;
  /** Called when the list may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

export function heldBundle(
  found: Extract<FoundBundle, { kind: 'verified' }>,
  reader: HeldBundle['reader'],
): HeldBundle {
  const { bundleId, payload, contents } = found.bundle;
  const layers = contents.layers.flatMap(({ digest, sizeBytes, inBase }) =>
    inBase === true ? [] : [[digest, sizeBytes] as const],
  );
  const attachments = (payload.attachments ?? []).map(({ digest, size }) => [digest, size] as const);
  const documents = found.documents.map((digest) => [digest, undefined] as const);
  return {
    bundleId,
    name: payload.name,
    version: payload.version,
    sequence: payload.sequence,
    blobs: new Map([[payload.contents.digest, payload.contents.size], ...documents, ...layers, ...attachments]),
    contents: payload.contents.digest,
    layers: new Set(layers.map(([digest]) => digest)),
    missing: new Set(found.missing.filter(isFaulty).map(({ digest }) => digest)),
    isEnvelope: found.isEnvelope === true,
    reader,
  };
}

/**
 * What the wire form carries: bundles that one node gives to another. The daemon has one over its
 * media and disk; a client is one over a connection.
 *
 * Every method may throw `offers/busy` (`wait`), see `busyError`, and what {@link BlobSource}
 * throws.
 */
interface OfferedBundles extends BlobSource {
  offers(signal: AbortSignal): Promise<Pick<OffersDocument, 'bundles' | 'node'>>;
  /** As on the medium; undefined when it is not offered. */
  file(bundleId: BundleId, name: OfferedFile, signal: AbortSignal): Promise<Buffer | undefined>;
  /** Sizes in bytes; undefined when it is not offered. */
  blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined>;
}

export interface ChangingOffers extends OfferedBundles {
  /** Called when the answer of {@link OfferedBundles.offers} may have changed. */
  onChange(listener: () => void): Unsubscribe;
}
