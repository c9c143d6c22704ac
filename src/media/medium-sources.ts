import type { BundleId, Digest } from '../domain/model/digest.ts';
import type { FoundBundle, MediumId } from '../domain/model/medium.ts';
import { type HeldBundle, heldBundle } from '../offers/held-bundle.ts';
import type { Log } from '../platform/log.ts';
import { type Listeners, notifyAll } from '../platform/subscription.ts';
import type { CopyFault } from '../ports/blobs.ts';
import type { MediumBundle, PluggedMedium, ReadableBundle } from './provider/media-provider.ts';

/** One verified bundle of one medium. */
export interface MediumSource {
  readonly bundleId: BundleId;
  readonly plugged: PluggedMedium;
  /** Aborts when the medium is unplugged. */
  readonly gone: AbortSignal;
  readonly bundle: ReadableBundle;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
  /** Blobs that are missing or too short here. Another source may have them. */
  readonly missing: ReadonlySet<Digest>;
  /** Blobs that were found bad here. They are used only while there is no other copy. */
  readonly faults: Map<Digest, CopyFault>;
}

/** The verified bundles of all media. Their blobs are served. */
export interface MediaBlobs {
  readonly sources: Map<MediumId, readonly MediumSource[]>;
  /** What other nodes gave wrong, for as long as the program runs. */
  readonly wrong: Map<MediumId, Set<Digest>>;
  /** How many streams each medium gives now. */
  readonly streams: Map<MediumId, number>;
  readonly listeners: Listeners;
  readonly log: Pick<Log, 'warn'>;
}

/** The content of a medium. */
export interface MediumContents {
  readonly plugged: PluggedMedium;
  /** Aborts when the medium is unplugged. */
  readonly gone: AbortSignal;
  readonly bundles: readonly MediumBundle[];
  /** The results for {@link bundles}. Each has the path of its bundle. */
  readonly judged: readonly FoundBundle[];
}

/** Creates it without a medium. */
export function createMediaBlobs(log: Pick<Log, 'warn'>): MediaBlobs {
  return { sources: new Map(), wrong: new Map(), streams: new Map(), listeners: new Set(), log };
}

/**
 * Offers the verified bundles of a medium. Open streams continue. A medium that has changed may
 * have been mended. Another node only has new blobs, or was away: what it gave wrong stays known.
 */
export function offerMedium(blobs: MediaBlobs, { plugged, gone, bundles, judged }: MediumContents): void {
  const wrong = plugged.peer === undefined ? [] : (blobs.wrong.get(plugged.mediumId) ?? []);
  const readable = new Map(bundles.flatMap((one) => (one.kind === 'bundle' ? [[one.path, one] as const] : [])));
  const sources = judged.flatMap((found): MediumSource[] => {
    const bundle = readable.get(found.path);
    if (found.kind !== 'verified' || bundle === undefined) return [];
    const missing = new Set(found.missing.map(({ digest }) => digest));
    const faults = new Map([...wrong].map((digest): [Digest, CopyFault] => [digest, 'damaged']));
    return [{ bundleId: found.bundle.bundleId, plugged, gone, bundle, found, missing, faults }];
  });
  blobs.sources.set(plugged.mediumId, sources);
  notifyAll(blobs.listeners);
}

/** Stops offering the blobs of a medium. Open streams continue while they can. */
export function forgetMedium(blobs: MediaBlobs, mediumId: MediumId): void {
  if (blobs.sources.delete(mediumId)) notifyAll(blobs.listeners);
}

/** As {@link forgetMedium}, for all media. */
export function forgetAllMedia(blobs: MediaBlobs): void {
  blobs.sources.clear();
  notifyAll(blobs.listeners);
}

/** A verified bundle on a plugged medium; undefined when none has it. */
export function bundleOnMedia({ sources }: MediaBlobs, bundleId: BundleId): ReadableBundle | undefined {
  return [...sources.values()].flat().find((source) => source.bundleId === bundleId && !source.gone.aborted)?.bundle;
}

/** What was made of each source, since one that did not change is the same object. */
const HELD = new WeakMap<MediumSource, HeldBundle>();

/** The verified bundles of all media of this node. None of them is what another node offers. */
export function heldOnMedia({ sources }: MediaBlobs): readonly HeldBundle[] {
  const own = [...sources.values()].flat().filter(({ plugged, gone }) => plugged.peer === undefined && !gone.aborted);
  return own.map((source) => {
    const known = HELD.get(source);
    if (known !== undefined) return known;
    const held = heldBundle(source.found, source.bundle.reader);
    HELD.set(source, held);
    return held;
  });
}

/**
 * The sources that may have a blob, without nodes that can't give anything now. They are sorted:
 * 1. sources in which the blob was not found damaged before those in which it was;
 * 2. media of this node before other nodes;
 * 3. nodes whose last answer was not an error;
 * 4. the node from which this one reads the fewest blobs now;
 * 5. the node that has the fewest blobs. The others stay free for nodes that need the blobs which
 *    only they have.
 */
export function candidatesFor({ sources, streams }: MediaBlobs, digest: Digest): readonly MediumSource[] {
  const isReadable = ({ plugged }: MediumSource) => plugged.peer?.().isReady !== false;
  const holders = [...sources.values()]
    .flat()
    .filter((source) => !source.missing.has(digest) && !source.gone.aborted && isReadable(source));
  const rank = ({ faults, plugged }: MediumSource) =>
    (faults.has(digest) ? 2 : 0) + (plugged.peer === undefined ? 0 : 1);
  const doubt = ({ plugged }: MediumSource) => (plugged.peer?.().hasFailed === true ? 1 : 0);
  const load = ({ plugged }: MediumSource) => (plugged.peer === undefined ? 0 : (streams.get(plugged.mediumId) ?? 0));
  const lacks = ({ plugged, missing }: MediumSource) => (plugged.peer === undefined ? 0 : missing.size);
  return [...holders].sort(
    (a, b) => rank(a) - rank(b) || doubt(a) - doubt(b) || load(a) - load(b) || lacks(b) - lacks(a),
  );
}

/** Remembers that a blob was found bad in a source. */
export function distrust(
  { wrong }: MediaBlobs,
  { faults, plugged }: MediumSource,
  digest: Digest,
  fault: CopyFault,
): void {
  faults.set(digest, fault);
  if (fault !== 'damaged' || plugged.peer === undefined) return;
  const known = wrong.get(plugged.mediumId) ?? new Set();
  wrong.set(plugged.mediumId, known.add(digest));
}
