import type { OfferedBundle } from '../../../src/domain/fleet/node-status.ts';
import type { BundleId, Digest } from '../../../src/domain/model/digest.ts';
import type { OfferedFile } from '../../../src/fleet/wire/documents.ts';
import type { OfferedBundles } from '../../../src/fleet/wire/server.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { type Listeners, listen, notifyAll } from '../../../src/platform/subscription.ts';

/** Bundles to offer, in memory. A test may add and remove while they are served. */
export interface MemoryOffers extends OfferedBundles {
  readonly bundles: Map<BundleId, { readonly offered: OfferedBundle; readonly files: Map<OfferedFile, Buffer> }>;
  readonly content: Map<Digest, Buffer>;
  /** Called with each read of a blob; what it throws is what the read throws. */
  onRead: (digest: Digest, startByte: number) => void;
  changed(): void;
  /** Adds a blob and gives its digest. */
  blob(bytes: Buffer): Digest;
}

/** Offers nothing yet. */
export function createMemoryOffers(): MemoryOffers {
  const listeners: Listeners = new Set();
  const offers: MemoryOffers = {
    bundles: new Map(),
    content: new Map(),
    onRead: () => undefined,
    changed: () => notifyAll(listeners),
    blob: (bytes) => {
      const digest = digestOf(bytes);
      offers.content.set(digest, bytes);
      return digest;
    },
    onChange: (listener) => listen(listeners, listener),
    offers: async () => ({ bundles: [...offers.bundles.values()].map(({ offered }) => offered) }),
    file: async (bundleId, name) => offers.bundles.get(bundleId)?.files.get(name),
    blobs: async (bundleId) =>
      offers.bundles.has(bundleId)
        ? new Map([...offers.content].map(([digest, bytes]) => [digest, bytes.length]))
        : undefined,
    sizeOf: async (digest) => offers.content.get(digest)?.length,
    async *read(digest, startByte) {
      offers.onRead(digest, startByte);
      const bytes = offers.content.get(digest) ?? Buffer.alloc(0);
      for (let at = startByte; at < bytes.length; at += 64 * 1024) yield bytes.subarray(at, at + 64 * 1024);
    },
  };
  return offers;
}
