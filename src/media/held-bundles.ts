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
  /** Carried by the bundle itself; sizes in bytes where known. */
  readonly blobs: ReadonlyMap<Digest, number | undefined>;
  /** The digest of `contents.json`, which may be beside the blobs. */
  readonly contents: Digest;
  readonly layers: ReadonlySet<Digest>;
  /** Missing or bad. */
  readonly missing: ReadonlySet<Digest>;
  /** Whether it was made without layers. */
  readonly isEnvelope: boolean;
  /** A blob is present when its size is right. */
  readonly reader: Pick<BundleReader, 'readFile' | 'sizeOf' | 'read'>;
}

export interface HeldBundles {
  /** A changed bundle is another object. Throws only on abort. */
  list(signal: AbortSignal): Promise<readonly HeldBundle[]>;
  /** Calls `listener` when the list may have changed. */
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
