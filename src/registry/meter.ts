import type { Digest } from '../domain/model/digest.ts';
import { mirrorPathOf } from '../domain/model/reference.ts';
import type { ChangingBlobSource } from '../ports/blobs.ts';
import type { BlobFlow, RequestMeter, TransferMeter } from '../ports/transfers.ts';

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

export interface RecordingMeter extends TransferMeter {
  open(digest: Digest): MeteredTransfer;
  /** The blob counts as open until the returned call: a medium may hang. */
  lookUp(digest: Digest): () => void;
  /** By digest or by tag. `isSent`: the answer was the manifest (200), or 304. */
  manifestRequested(mirrorPath: string, reference: string, isSent: boolean): void;
  /** No source offers it. */
  unknownRequested(mirrorPath: string, digest: Digest): void;
}

interface Tally {
  sentBytes: number;
  opened: number;
  open: number;
  awaitingMedium: number;
  awaitingRuntime: number;
}

const IDLE: BlobFlow = { sentBytes: 0, opened: 0, open: 0, awaitingMedium: 0, awaitingRuntime: 0 };

export function createMeter(): RecordingMeter {
  return { ...createRequestMeter(), ...createFlowMeter() };
}

type RequestParts = RequestMeter & Pick<RecordingMeter, 'manifestRequested' | 'unknownRequested'>;
type FlowParts = Omit<RecordingMeter, keyof RequestParts>;

function createRequestMeter(): RequestParts {
  const requested = new Map<string, number>();
  const sent = new Map<string, number>();
  const unknown = new Map<string, { count: number; last: Digest }>();
  const listeners = new Set<(path: string, reference: string) => void>();
  return {
    manifestRequests: (repository, reference) => requested.get(keyOf(mirrorPathOf(repository), reference)) ?? 0,
    manifestsSent: (repository, reference) => sent.get(keyOf(mirrorPathOf(repository), reference)) ?? 0,
    onManifestRequest: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    unknownRequests: (repository) => unknown.get(mirrorPathOf(repository)) ?? { count: 0, last: undefined },
    manifestRequested: (path, reference, isSent) => {
      const key = keyOf(path, reference);
      if (isSent) sent.set(key, (sent.get(key) ?? 0) + 1);
      requested.set(key, (requested.get(key) ?? 0) + 1);
      for (const listener of listeners) listener(path, reference);
    },
    unknownRequested: (path, digest) => {
      unknown.set(path, { count: (unknown.get(path)?.count ?? 0) + 1, last: digest });
    },
  };
}

function createFlowMeter(): FlowParts {
  const all: Tally = { ...IDLE };
  const furthest = new Map<Digest, number>();
  const tallies = new Map<Digest, Tally>();
  const damaged = new Set<Digest>();
  const adderOf = (digest: Digest) => {
    const own = tallies.get(digest) ?? { ...IDLE };
    tallies.set(digest, own);
    return (key: keyof Tally, change: number) => {
      own[key] += change;
      all[key] += change;
    };
  };
  return {
    totalBytes: () => all.sentBytes,
    sentBytes: () => furthest,
    forget: (digest) => {
      furthest.delete(digest);
      damaged.delete(digest);
      if (tallies.get(digest)?.open === 0) tallies.delete(digest);
    },
    damaged: () => damaged,
    waiting: () => all.awaitingMedium,
    flow: (digests) => {
      const sum: Tally = { ...IDLE };
      for (const digest of digests) {
        for (const key of Object.keys(sum) as (keyof Tally)[]) sum[key] += tallies.get(digest)?.[key] ?? 0;
      }
      return sum;
    },
    open: (digest) => {
      const add = adderOf(digest);
      damaged.delete(digest);
      add('opened', 1);
      add('open', 1);
      return {
        sent: (count, endByte) => {
          add('sentBytes', count);
          furthest.set(digest, Math.max(furthest.get(digest) ?? 0, endByte));
        },
        awaitsMedium: (change) => add('awaitingMedium', change),
        awaitsRuntime: (change) => add('awaitingRuntime', change),
        damaged: () => void damaged.add(digest),
        close: () => add('open', -1),
      };
    },
    lookUp: (digest) => {
      const add = adderOf(digest);
      add('open', 1);
      return () => {
        add('open', -1);
        // Nothing stays of a blob that was never sent: a client may request any digest.
        const { open, opened } = tallies.get(digest) ?? IDLE;
        if (open === 0 && opened === 0) tallies.delete(digest);
      };
    },
  };
}

function keyOf(mirrorPath: string, reference: string): string {
  return `${mirrorPath}@${reference}`;
}

/** Counts each blob whose size is looked up, until that is known. */
export function meteredSource(source: ChangingBlobSource, meter: Pick<RecordingMeter, 'lookUp'>): ChangingBlobSource {
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
