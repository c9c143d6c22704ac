import { join } from 'node:path';
import { isBundleTar } from '../bundle/read/open-bundle.ts';
import type { Digest } from '../domain/model/digest.ts';
import type { FoundBundle, MediumId } from '../domain/model/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Allocate } from '../platform/files/chunk-buffer.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import type { BlobSource, BlobUnion, CopyFault } from '../ports/blobs.ts';
import type { PluggedMedium } from './provider/media-provider.ts';

/** Access to the blobs of one bundle directory; see `openBundleDirectory` in bundle/. */
export type BlobDirectory = BlobSource;

/** The union of the blobs of all verified bundles on all media, and how it is changed. */
export interface MediaBlobs extends BlobUnion {
  /** Makes `bundles` what a medium offers. Streams that are open go on. `gone` aborts when the medium left. */
  set(plugged: PluggedMedium, gone: AbortSignal, root: string, bundles: readonly FoundBundle[]): void;
  remove(mediumId: MediumId): void;
  clear(): void;
}

interface Source {
  readonly plugged: PluggedMedium;
  readonly gone: AbortSignal;
  readonly directory: BlobDirectory;
  /** Where the bundle lies, relative to the root of its medium. */
  readonly path: string;
  /** Blobs that were found lacking or cut short here; another source may have them. */
  readonly missing: ReadonlySet<Digest>;
  /** Blobs that were found bad here since it was read: taken from here only while nothing else has them. */
  readonly faults: Map<Digest, CopyFault>;
}

/** Makes an empty {@link MediaBlobs}. */
export function createMediaBlobs(
  openBundle: (path: string, root: string) => BlobDirectory,
  log: Pick<Log, 'warn'>,
): MediaBlobs {
  const sources = new Map<MediumId, readonly Source[]>();
  const listeners = new Set<() => void>();
  const notify = (): void => {
    for (const listener of [...listeners]) listener();
  };

  /** Those that may have a blob, the trusted ones first. */
  const candidates = (digest: Digest): readonly Source[] => {
    const holders = [...sources.values()].flat().filter(({ missing, gone }) => !missing.has(digest) && !gone.aborted);
    const isTrusted = ({ faults }: Source) => !faults.has(digest);
    return [...holders.filter(isTrusted), ...holders.filter((source) => !isTrusted(source))];
  };
  const find = async (digest: Digest, signal: AbortSignal): Promise<{ source: Source; size: number } | undefined> => {
    for (const source of candidates(digest)) {
      const size = await sizeIn(source, digest, signal);
      if (size !== undefined) return { source, size };
    }
    return undefined;
  };
  /** A transfer that goes on after a failed read takes the rest from another medium, if one has it. */
  const readNoting = async function* (
    source: Source,
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    allocate: Allocate | undefined,
  ) {
    try {
      yield* readFrom(source, digest, startByte, signal, allocate);
    } catch (error) {
      if (error instanceof AppError && error.code === 'media/read' && !source.faults.has(digest)) {
        source.faults.set(digest, 'unreadable');
        const next = (await find(digest, signal))?.source;
        if (next !== undefined && !next.faults.has(digest)) tellChange(log, digest, source, next, error);
      }
      throw error;
    }
  };

  return {
    sizeOf: async (digest, signal) => (await find(digest, signal))?.size,
    async *read(digest, startByte, signal, allocate) {
      const found = await find(digest, signal);
      // What another medium began must not go on with bytes that are known to be wrong.
      const isUseless = startByte > 0 && found?.source.faults.get(digest) === 'damaged';
      if (found === undefined || isUseless) throw nowhere(digest);
      yield* readNoting(found.source, digest, startByte, signal, allocate);
    },
    copiesOf: async (digest, signal) => {
      const holders = candidates(digest);
      const sizes = await Promise.all(holders.map((source) => sizeIn(source, digest, signal)));
      return holders.flatMap((source, at) =>
        sizes[at] === undefined
          ? []
          : [
              {
                label: source.plugged.label,
                file: fileOf(source, digest),
                isTrusted: !source.faults.has(digest),
                read: (startByte: number, inner: AbortSignal) => readFrom(source, digest, startByte, inner),
                distrust: (fault: CopyFault) => void source.faults.set(digest, fault),
              },
            ],
      );
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
                directory: openBundle(join(root, found.path), root),
                path: found.path,
                missing: new Set(found.missing.map(({ digest }) => digest)),
                faults: new Map(),
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

/** The file of a blob, relative to the root of its medium; in a tar its name there. */
function fileOf({ path }: Source, digest: Digest): string {
  const name = `blobs/${digest.replace(':', '/')}`;
  return isBundleTar(path) ? `${name} in ${path}` : join(path, name);
}

function tellChange(log: Pick<Log, 'warn'>, digest: Digest, from: Source, to: Source, error: unknown): void {
  const [bad, good] = [from.plugged.label, to.plugged.label];
  const where = bad === good ? `another copy on ${good}` : good;
  const file = fileOf(from, digest);
  // Which image the runtime pulls is not known here.
  const fields = { messageId: messageIds.blobDamaged, medium: bad, digest, file, image: 'not known', err: error };
  log.warn(
    fields,
    `Blob ${digest} can't be read from ${bad}: ${reasonOf(error)}. It is taken from ${where} instead. File on ${bad}: ${file}.`,
  );
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
  allocate?: Allocate,
): AsyncGenerator<Buffer, void, undefined> {
  const both = AbortSignal.any([signal, source.gone]);
  const chunks = source.directory.read(digest, startByte, both, allocate)[Symbol.asyncIterator]();
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
