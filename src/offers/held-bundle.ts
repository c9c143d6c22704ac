import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import type { Digest } from '../domain/model/digest.ts';
import { type FoundBundle, isFaulty } from '../domain/model/medium.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** A verified bundle of this node that may be offered, or a part of one. */
export interface HeldBundle {
  readonly bundleId: Digest;
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  /** The blobs that the bundle itself carries, with their sizes in bytes where these are known. */
  readonly blobs: ReadonlyMap<Digest, number | undefined>;
  /** The digest of `contents.json`. It need not be among the blobs: it may lie beside them. */
  readonly contents: Digest;
  /** Those of {@link blobs} that are layers. */
  readonly layers: ReadonlySet<Digest>;
  /** Blobs that are known to be missing or bad here. */
  readonly missing: ReadonlySet<Digest>;
  /** It is made to carry no layers. */
  readonly isEnvelope: boolean;
  /** Its documents and blobs. A blob is there when its size is right. */
  readonly reader: Pick<BundleReader, 'readFile' | 'sizeOf' | 'read'>;
}

/** Where a node has bundles. */
export interface HeldBundles {
  /**
   * All of them. A bundle of which something changed is another object. Never throws but an abort.
   */
  list(signal: AbortSignal): Promise<readonly HeldBundle[]>;
  /** Calls `listener` when the list may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/** A bundle that was judged, as one that is held. */
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
