import { once } from 'node:events';
import type { BundleReader } from '../../../src/bundle/read/bundle-reader.ts';
import type { Digest } from '../../../src/domain/model/digest.ts';
import type { BundleAccess } from '../../../src/media/media-provider.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { eventually } from '../eventually.ts';

/**
 * Stands between a daemon and its sticks: stops a blob where a test wants it, counts what is read,
 * and lies.
 */
export interface StickGate {
  /** For the daemon's `watchBundle`. */
  watchBundle(bundle: BundleAccess): BundleAccess;
  /** Reads of this blob stop before byte `atByte`, until {@link StickGate.release}. */
  hold(digest: Digest, atByte: number): void;
  /** Resolves when a read stands at the gate. */
  reached(): Promise<void>;
  release(): void;
  /** The next `reads` reads that begin at the start of this blob give another first byte. */
  lie(digest: Digest, reads: number): void;
  /** Reads of this blob fail at `atByte`, as on a bad sector. */
  spoilSector(digest: Digest, atByte: number): void;
  /** Where the reads of a blob began, in order. */
  starts(digest: Digest): readonly number[];
  /** How many bytes of it were read, each time counted. */
  bytesRead(digest: Digest): number;
}

/** A gate that is open. */
export function createStickGate(): StickGate {
  const starts = new Map<Digest, number[]>();
  const bytes = new Map<Digest, number>();
  const sectors = new Map<Digest, number>();
  const lies = new Map<Digest, number>();
  let held: { digest: Digest; atByte: number; opened: AbortController; waiting: number } | undefined;

  const isHeldAt = (digest: Digest, at: number) => held?.digest === digest && at >= held.atByte;
  const wait = async (signal: AbortSignal): Promise<void> => {
    if (held === undefined) return;
    held.waiting += 1;
    await once(AbortSignal.any([signal, held.opened.signal]), 'abort');
    signal.throwIfAborted();
  };
  const spoil = (digest: Digest, chunk: Buffer): Buffer => {
    const left = lies.get(digest) ?? 0;
    if (left === 0) return chunk;
    lies.set(digest, left - 1);
    return Buffer.concat([Buffer.from([(chunk[0] ?? 0) ^ 0xff]), chunk.subarray(1)]);
  };

  async function* read(reader: BundleReader, digest: Digest, startByte: number, signal: AbortSignal) {
    starts.set(digest, [...(starts.get(digest) ?? []), startByte]);
    let at = startByte;
    if (isHeldAt(digest, at)) await wait(signal);
    for await (const chunk of reader.read(digest, startByte, signal)) {
      if (at + chunk.length > (sectors.get(digest) ?? Number.POSITIVE_INFINITY)) throw badSector(digest);
      bytes.set(digest, (bytes.get(digest) ?? 0) + chunk.length);
      const given = at === 0 ? spoil(digest, chunk) : chunk;
      at += chunk.length;
      yield given;
      if (isHeldAt(digest, at)) await wait(signal);
    }
  }

  return {
    watchBundle: ({ reader }) => {
      const gated: BundleReader = {
        ...reader,
        read: (digest, startByte, signal) => read(reader, digest, startByte, signal),
      };
      return { reader: gated, blobs: gated };
    },
    hold: (digest, atByte) => {
      held = { digest, atByte, opened: new AbortController(), waiting: 0 };
    },
    reached: () =>
      eventually(() => {
        if ((held?.waiting ?? 0) === 0) throw new Error(`nothing reads ${held?.digest} up to ${held?.atByte}`);
      }, 60_000),
    release: () => {
      held?.opened.abort();
      held = undefined;
    },
    lie: (digest, reads) => void lies.set(digest, reads),
    spoilSector: (digest, atByte) => void sectors.set(digest, atByte),
    starts: (digest) => starts.get(digest) ?? [],
    bytesRead: (digest) => bytes.get(digest) ?? 0,
  };
}

function badSector(digest: Digest): AppError {
  return new AppError({
    code: 'media/read',
    message: `${digest} can't be read: i/o error (EIO)`,
    disposition: 'retry',
  });
}
