import type { Digest } from '../domain/model/digest.ts';
import { mirrorPathOf } from '../domain/model/reference.ts';
import { listen, type Unsubscribe } from '../platform/subscription.ts';
import type { ChangingBlobSource } from '../ports/blobs.ts';
import type { BlobFlow, TransferMeter } from '../ports/transfers.ts';

export interface MeteredTransfer {
  /** The blob has now been sent up to `endByte`. */
  sent(count: number, endByte: number): void;
  /** Starts (`1`) or ends (`-1`). */
  awaitsMedium(change: 1 | -1): void;
  /** Starts (`1`) or ends (`-1`). */
  awaitsRuntime(change: 1 | -1): void;
  /** The sent bytes have a wrong digest. */
  damaged(): void;
  close(): void;
}

interface Tally {
  sentBytes: number;
  opened: number;
  open: number;
  awaitingMedium: number;
  awaitingRuntime: number;
}

const IDLE: BlobFlow = { sentBytes: 0, opened: 0, open: 0, awaitingMedium: 0, awaitingRuntime: 0 };

export class Meter implements TransferMeter {
  private readonly requested = new Map<string, number>();
  private readonly sent = new Map<string, number>();
  private readonly unknown = new Map<string, { count: number; last: Digest }>();
  private readonly listeners = new Set<(path: string, reference: string) => void>();
  private readonly all: Tally = { ...IDLE };
  private readonly furthest = new Map<Digest, number>();
  private readonly tallies = new Map<Digest, Tally>();
  private readonly bad = new Set<Digest>();

  manifestRequests(repository: string, reference: string): number {
    return this.requested.get(keyOf(mirrorPathOf(repository), reference)) ?? 0;
  }

  manifestsSent(repository: string, reference: string): number {
    return this.sent.get(keyOf(mirrorPathOf(repository), reference)) ?? 0;
  }

  onManifestRequest(listener: (path: string, reference: string) => void): Unsubscribe {
    return listen(this.listeners, listener);
  }

  unknownRequests(repository: string): { count: number; last: Digest | undefined } {
    return this.unknown.get(mirrorPathOf(repository)) ?? { count: 0, last: undefined };
  }

  /** By digest or by tag. `isSent`: the answer was the manifest (200), or 304. */
  manifestRequested(mirrorPath: string, reference: string, isSent: boolean): void {
    const key = keyOf(mirrorPath, reference);
    if (isSent) this.sent.set(key, (this.sent.get(key) ?? 0) + 1);
    this.requested.set(key, (this.requested.get(key) ?? 0) + 1);
    for (const listener of this.listeners) listener(mirrorPath, reference);
  }

  /** No source offers it. */
  unknownRequested(mirrorPath: string, digest: Digest): void {
    this.unknown.set(mirrorPath, { count: (this.unknown.get(mirrorPath)?.count ?? 0) + 1, last: digest });
  }

  totalBytes(): number {
    return this.all.sentBytes;
  }

  sentBytes(): ReadonlyMap<Digest, number> {
    return this.furthest;
  }

  forget(digest: Digest): void {
    this.furthest.delete(digest);
    this.bad.delete(digest);
    if (this.tallies.get(digest)?.open === 0) this.tallies.delete(digest);
  }

  damaged(): ReadonlySet<Digest> {
    return this.bad;
  }

  waiting(): number {
    return this.all.awaitingMedium;
  }

  flow(digests: readonly Digest[]): BlobFlow {
    const sum: Tally = { ...IDLE };
    for (const digest of digests) {
      for (const key of Object.keys(sum) as (keyof Tally)[]) sum[key] += this.tallies.get(digest)?.[key] ?? 0;
    }
    return sum;
  }

  open(digest: Digest): MeteredTransfer {
    const add = this.adderOf(digest);
    this.bad.delete(digest);
    add('opened', 1);
    add('open', 1);
    return {
      sent: (count, endByte) => {
        add('sentBytes', count);
        this.furthest.set(digest, Math.max(this.furthest.get(digest) ?? 0, endByte));
      },
      awaitsMedium: (change) => add('awaitingMedium', change),
      awaitsRuntime: (change) => add('awaitingRuntime', change),
      damaged: () => void this.bad.add(digest),
      close: () => add('open', -1),
    };
  }

  /** The blob counts as open until the returned call: a medium may hang. */
  lookUp(digest: Digest): () => void {
    const add = this.adderOf(digest);
    add('open', 1);
    return () => {
      add('open', -1);
      // Nothing stays of a blob that was never sent: a client may request any digest.
      const { open, opened } = this.tallies.get(digest) ?? IDLE;
      if (open === 0 && opened === 0) this.tallies.delete(digest);
    };
  }

  private adderOf(digest: Digest): (key: keyof Tally, change: number) => void {
    const tally = this.tallies.get(digest) ?? { ...IDLE };
    this.tallies.set(digest, tally);
    return (key, change) => {
      tally[key] += change;
      this.all[key] += change;
    };
  }
}

function keyOf(mirrorPath: string, reference: string): string {
  return `${mirrorPath}@${reference}`;
}

/** Counts each blob whose size is looked up, until that is known. */
export function meteredSource(source: ChangingBlobSource, meter: Meter): ChangingBlobSource {
  return {
    onChange: (listener) => source.onChange(listener),
    read: (digest, startByte, signal, allocate) => source.read(digest, startByte, signal, allocate),
    sizeOf: async (digest, signal) => {
      const end = meter.lookUp(digest);
      try {
        return await source.sizeOf(digest, signal);
      } finally {
        end();
      }
    },
  };
}
