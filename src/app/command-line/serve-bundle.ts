import { lstat } from 'node:fs/promises';
import { setFlagsFromString } from 'node:v8';
import { referrersIndex, referrersTagOf } from '../../bundle/format/referrers.ts';
import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import type { BundleRepository } from '../../bundle/verify/list-repositories.ts';
import type { ServedBundle, ServeRequest } from '../../cli/context/command-adapters.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { mirrorPathOf } from '../../domain/model/reference.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import type { Offer } from '../../registry/blob-union.ts';
import { CheckedSource, type StampOf } from '../../registry/checked-source.ts';
import { createRegistry } from '../../registry/server.ts';

/**
 * Serves a bundle to anybody who can connect. When the bundle disappears, its transfers are closed
 * at once.
 */
export async function serveBundle({ reader, repositories, host, port, warn }: ServeRequest): Promise<ServedBundle> {
  keepYoungGenerationSmall();
  const life = new AbortController();
  const { find, paths, documents } = offersOf(repositories);
  const source = new CheckedSource(withDocuments(documents, reader), fileStamps(reader, documents), life.signal);
  const registry = createRegistry({
    source,
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
  const logWarning: Log['warn'] = (_fields, message) => warn(message);
  return { debug: ignore, info: ignore, warn: logWarning, error: logWarning };
}

interface BundleOffers {
  /** See `PullApiOptions.find`. */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  /** The paths of each repository, the full one first. */
  readonly paths: ReadonlyMap<string, readonly string[]>;
  /** Generated indexes for the referrers tag schema. */
  readonly documents: ReadonlyMap<Digest, Buffer>;
}

/**
 * Offers every repository under its full path (`quay.io/coreos/etcd`, and `localhost__5000/app` for
 * a registry with a port), and without the registry (`coreos/etcd`) if only one repository matches.
 * A client that names the original registry (`?ns=quay.io`) gets the repository of that registry.
 */
function offersOf(repositories: ReadonlyMap<string, BundleRepository>): BundleOffers {
  const documents = new Map<Digest, Buffer>();
  const full = new Map<string, Offer>();
  const short = new Map<string, string[]>();
  for (const [repository, found] of repositories) {
    full.set(mirrorPathOf(repository), offerOf(found, documents));
    const path = withoutRegistry(repository);
    short.set(path, [...(short.get(path) ?? []), mirrorPathOf(repository)]);
  }
  const aliases = new Map<string, string>();
  for (const [path, [only, ...others]] of short) {
    if (only !== undefined && others.length === 0 && !full.has(path)) aliases.set(path, only);
  }
  return {
    documents,
    find: (path, namespace) => {
      const exact = full.get(path);
      if (exact !== undefined) return exact;
      if (namespace !== undefined) return full.get(mirrorPathOf(`${namespace}/${path}`));
      return full.get(aliases.get(path) ?? '');
    },
    paths: new Map(
      [...repositories.keys()].map((repository) => {
        const path = mirrorPathOf(repository);
        const alias = withoutRegistry(repository);
        return [repository, aliases.get(alias) === path ? [path, alias] : [path]];
      }),
    ),
  };
}

function withoutRegistry(repository: string): string {
  return repository.slice(repository.indexOf('/') + 1);
}

/** Adds the generated indexes for referrers tags to `documents`. */
function offerOf({ digests, tags, referrers }: BundleRepository, documents: Map<Digest, Buffer>): Offer {
  const referrersTags = new Map<string, Digest>();
  const all = new Set(digests);
  for (const [subject, found] of referrers) {
    const bytes = Buffer.from(JSON.stringify(referrersIndex(found)));
    const digest = digestOf(bytes);
    documents.set(digest, bytes);
    all.add(digest);
    referrersTags.set(referrersTagOf(subject), digest);
  }
  return { digests: all, tags, referrers, referrersTags, layers: new Map() };
}
