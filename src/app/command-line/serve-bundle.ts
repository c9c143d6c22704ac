import { lstat } from 'node:fs/promises';
import { setFlagsFromString } from 'node:v8';
import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import type { ServedBundle, ServeRequest } from '../../cli/context/command-adapters.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { createCheckedSource, type StampOf } from '../../registry/checked-source.ts';
import { createRegistry } from '../../registry/server.ts';
import { offersOf } from './offers.ts';

/**
 * Serves a bundle to anybody who can connect. When the bundle disappears, its transfers are closed
 * at once.
 */
export async function serveBundle({ reader, repositories, host, port, warn }: ServeRequest): Promise<ServedBundle> {
  keepYoungGenerationSmall();
  const life = new AbortController();
  const { find, paths, documents } = offersOf(repositories);
  const source = createCheckedSource(withDocuments(documents, reader), fileStamps(reader, documents), life.signal);
  const registry = createRegistry({
    source: { ...source, onChange: () => () => undefined },
    clock: systemClock,
    log: logTo(warn),
    graceMs: 0,
    token: undefined,
    admit: async (socket) => socket.remoteAddress,
  });
  registry.setOffers(find);
  const authority = await registry.listen({ host, port }).catch((error: unknown) => {
    throw error instanceof AppError ? withoutSettings(error, `${host}:${port}`) : error;
  });
  return {
    authority,
    paths,
    close: async () => {
      life.abort();
      await registry.close();
    },
  };
}

/**
 * Keeps V8 from enlarging its young generation. Each chunk that is sent leaves a few short-lived
 * objects, for which V8 would take up to 96 MiB when many clients pull. The daemon has
 * `--max-semi-space-size` for this, but a command gets no flags of its own. V8 reads this flag
 * whenever it would enlarge the young generation, so it may be set late.
 */
function keepYoungGenerationSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * The lstat(2) data of the file of a blob. It includes ctime, which can't be set back, unlike
 * mtime.
 */
function fileStamps(reader: FileBundleReader, documents: ReadonlyMap<Digest, Buffer>): StampOf {
  return async (digest, signal) => {
    if (documents.has(digest)) return 'in memory';
    const { file } = await reader.placeOf(digest, signal);
    const stats = await lstat(file, { bigint: true }).catch(() => undefined);
    return stats && [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ');
  };
}

/** A source of small documents in memory before another one. */
function withDocuments(documents: ReadonlyMap<Digest, Buffer>, source: BlobSource): BlobSource {
  return {
    sizeOf: async (digest, signal) => documents.get(digest)?.length ?? (await source.sizeOf(digest, signal)),
    async *read(digest, startByte, signal, allocate) {
      const bytes = documents.get(digest);
      if (bytes === undefined) yield* source.read(digest, startByte, signal, allocate);
      else yield bytes.subarray(startByte);
    },
  };
}

/** Replaces the daemon's advice about settings, because the command has options instead. */
function withoutSettings(error: AppError, where: string): AppError {
  const { code, disposition, cause } = error;
  const why = cause === undefined ? error.message : reasonOf(cause);
  const message = `${where} can't be listened on: ${why}; give another address with --listen, as 127.0.0.1:0 for any free port`;
  return new AppError({ code, disposition, message, cause });
}

function logTo(warn: (line: string) => void): Log {
  const ignore = () => undefined;
  const tell: Log['warn'] = (_fields, message) => warn(message);
  return { debug: ignore, info: ignore, warn: tell, error: tell };
}
