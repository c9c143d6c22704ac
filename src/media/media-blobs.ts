import { join } from 'node:path';
import type { Digest } from '../domain/digest.ts';
import type { FoundBundle, MediumId } from '../domain/medium.ts';
import type { BlobSource, ChangingBlobSource } from '../engine/ports.ts';
import { AppError } from '../platform/app-error.ts';
import type { PluggedMedium } from './media-provider.ts';

/** Access to the blobs of one bundle directory; see `openBundleDirectory` in bundle/. */
export type BlobDirectory = BlobSource;

/** The union of the blobs of all verified bundles on all media, and how it is changed. */
export interface MediaBlobs extends ChangingBlobSource {
  /** Makes `bundles` what a medium offers. Streams that are open go on. `gone` aborts when the medium left. */
  set(plugged: PluggedMedium, gone: AbortSignal, root: string, bundles: readonly FoundBundle[]): void;
  remove(mediumId: MediumId): void;
  clear(): void;
}

interface Source {
  readonly plugged: PluggedMedium;
  readonly gone: AbortSignal;
  readonly directory: BlobDirectory;
  /** Blobs that were found lacking or cut short here; another source may have them. */
  readonly missing: ReadonlySet<Digest>;
}

/** Makes an empty {@link MediaBlobs}. */
export function createMediaBlobs(openBundle: (path: string) => BlobDirectory): MediaBlobs {
  const sources = new Map<MediumId, readonly Source[]>();
  const listeners = new Set<() => void>();
  const notify = (): void => {
    for (const listener of [...listeners]) listener();
  };

  const find = async (digest: Digest, signal: AbortSignal): Promise<{ source: Source; size: number } | undefined> => {
    for (const source of [...sources.values()].flat()) {
      if (source.missing.has(digest) || source.gone.aborted) continue;
      const size = await sizeIn(source, digest, signal);
      if (size !== undefined) return { source, size };
    }
    return undefined;
  };

  return {
    sizeOf: async (digest, signal) => (await find(digest, signal))?.size,
    async *read(digest, startByte, signal) {
      const found = await find(digest, signal);
      if (found === undefined) throw nowhere(digest);
      yield* readFrom(found.source, digest, startByte, signal);
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    set: (plugged, gone, root, bundles) => {
      const open = bundles.flatMap((found) =>
        found.kind !== 'verified'
          ? []
          : [
              {
                plugged,
                gone,
                directory: openBundle(join(root, found.path)),
                missing: new Set(found.missing.map(({ digest }) => digest)),
              },
            ],
      );
      sources.set(plugged.mediumId, open);
      notify();
    },
    remove: (mediumId) => {
      if (sources.delete(mediumId)) notify();
    },
    clear: () => {
      sources.clear();
      notify();
    },
  };
}

/** A source that can't be asked has nothing: the next one may. */
async function sizeIn(source: Source, digest: Digest, signal: AbortSignal): Promise<number | undefined> {
  try {
    return await source.directory.sizeOf(digest, AbortSignal.any([signal, source.gone]));
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/**
 * The stream of one source. It ends at once when the medium leaves, even while a read hangs in a device that is no longer there; the source
 * closes its file under the same signal.
 */
async function* readFrom(
  source: Source,
  digest: Digest,
  startByte: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const both = AbortSignal.any([signal, source.gone]);
  const chunks = source.directory.read(digest, startByte, both)[Symbol.asyncIterator]();
  const aborted = rejectionOf(both);
  try {
    for (;;) {
      const next = await Promise.race([chunks.next(), aborted.promise]);
      if (next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    source.gone.throwIfAborted();
    signal.throwIfAborted();
    // The error comes before the news: a pulled stick fails to read at once, and udev tells a moment later.
    if (!(await source.plugged.isThere(signal))) throw goneWhileReading(source, digest, error);
    throw error;
  } finally {
    aborted.release();
    // Not awaited: it would wait for a read that may hang.
    void chunks.return?.()?.catch(() => undefined);
  }
}

function rejectionOf(signal: AbortSignal): { promise: Promise<never>; release: () => void } {
  let onAbort: () => void = () => undefined;
  const promise = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  promise.catch(() => undefined); // the abort may come between two reads
  return { promise, release: () => signal.removeEventListener('abort', onAbort) };
}

function nowhere(digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `No medium that is plugged in has the blob ${digest}; plug in the one with its bundle`,
    disposition: 'wait',
  });
}

function goneWhileReading(source: Source, digest: Digest, cause: unknown): AppError {
  return new AppError({
    code: 'media/gone',
    message: `${source.plugged.label} was removed while ${digest} was read; plug it in again to continue`,
    disposition: 'wait',
    cause,
  });
}
