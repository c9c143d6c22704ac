import { lstat, realpath } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { findEntry, holdOnMedium } from '../bundle/read/bundle-directory.ts';
import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import type { BundleLayout } from '../bundle/read/find-bundles.ts';
import { isBundleTar } from '../bundle/read/open-bundle.ts';
import type { MediumId } from '../domain/model/medium.ts';
import { type AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { NEVER_ABORTED, untilAborted } from '../platform/async/abort.ts';
import { inPlace, type Places } from '../platform/async/concurrency.ts';
import type { Log } from '../platform/log.ts';
import type { BlobSource } from '../ports/blobs.ts';
import {
  type BundleAccess,
  folderMedium,
  isDevicePath,
  type MediaProvider,
  type MediaSink,
  mediaError,
} from './media-provider.ts';

interface LoadedMediaDeps {
  readonly log: Log;
  /** How often presence is checked, since nothing reports a lost network mount. Default 2 s. */
  readonly presenceMs?: number;
}

/** Hidden from the service (systemd.exec(5), `ProtectHome=`, `PrivateTmp=`). */
const HIDDEN = /^\/(home|root|run\/user|tmp|var\/tmp)(\/|$)/;

interface Loaded {
  readonly path: string;
  readonly identity: string;
  isChecking: boolean;
}

/**
 * Media that a person loads by path: a directory with `stickpin/`, a bundle directory, or a
 * `.stickpin.tar` file. A path is a medium until it disappears, is replaced, or the daemon ends. It
 * is not watched; load it again after a change.
 */
export class LoadedMedia implements MediaProvider {
  private readonly log: Log;
  private readonly presenceMs: number;
  private readonly loaded = new Map<MediumId, Loaded>();
  private sink: MediaSink | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor({ log, presenceMs = 2_000 }: LoadedMediaDeps) {
    this.log = log;
    this.presenceMs = presenceMs;
  }

  async start(sink: MediaSink): Promise<void> {
    this.sink = sink;
    this.timer = setInterval(() => void this.checkAll(), this.presenceMs).unref();
  }

  rescan(signal: AbortSignal): Promise<void> {
    return untilAborted(this.checkAll(), signal);
  }

  async dispose(): Promise<void> {
    clearInterval(this.timer);
    this.loaded.clear();
  }

  async load(given: string, signal: AbortSignal): Promise<string | undefined> {
    if (await isDevicePath(given)) return undefined;
    const { path, layout, identity } = await untilAborted(judgePath(given), signal);
    const mediumId: MediumId = `load:${path}`;
    const before = this.loaded.get(mediumId);
    this.loaded.set(mediumId, { path, identity, isChecking: false });
    if (before?.identity === identity) this.sink?.changed(mediumId);
    else this.sink?.arrived(folderMedium(mediumId, path, layout, () => isSame(path, identity)));
    return path;
  }

  private async checkAll(): Promise<void> {
    await Promise.all([...this.loaded].map(([mediumId, entry]) => this.check(mediumId, entry)));
  }

  private async check(mediumId: MediumId, entry: Loaded): Promise<void> {
    if (entry.isChecking) return;
    entry.isChecking = true;
    const identity = await identityOf(entry.path).catch(() => undefined);
    entry.isChecking = false;
    if (identity === entry.identity || this.loaded.get(mediumId) !== entry) return;
    this.loaded.delete(mediumId);
    this.log.info(
      { medium: entry.path },
      `${entry.path} is gone and no medium any more; load it again when it is back`,
    );
    this.sink?.left(mediumId);
  }
}

interface Place {
  readonly path: string;
  readonly layout: BundleLayout;
  readonly identity: string;
}

/** @throws AppError `media/load` (`reject`) with the reason */
async function judgePath(given: string): Promise<Place> {
  const path = given.length > 1 ? given.replace(/\/+$/, '') : given;
  if (!path.startsWith('/') || normalize(path) !== path) {
    throw loadError(`${given} is not a plain absolute path: give it without . and ..`);
  }
  const real = await realpath(path).catch((error: unknown) => {
    throw unreachable(path, error);
  });
  // The daemon reads as root. A user who may change a link must not choose what it reads.
  if (real !== path)
    throw loadError(`${path} leads over a link to ${real}; links are not followed: load ${real} itself`);
  const identity = await identityOf(path);
  if (identity === undefined) throw unreachable(path, new Error('it is gone'));
  return { path, layout: await layoutOf(path), identity };
}

async function layoutOf(path: string): Promise<BundleLayout> {
  const stats = await lstat(path);
  if (stats.isFile()) {
    if (isBundleTar(path)) return 'bundle';
    throw loadError(`${path} is a file, and no bundle in tar form: the name of one ends with .stickpin.tar`);
  }
  if (!stats.isDirectory()) throw loadError(`${path} is neither a directory nor a .stickpin.tar file`);
  const folder = await holdOnMedium(path, path);
  try {
    if (folder === undefined) throw unreachable(path, new Error('it is gone'));
    if ((await findEntry(folder, 'bundle.dsse.json')) !== undefined) return 'bundle';
    if ((await findEntry(folder, 'stickpin')) !== undefined) return 'medium';
  } finally {
    await folder?.close();
  }
  throw loadError(
    `${path} holds neither ${join(path, 'stickpin')}/ nor bundle.dsse.json: load the directory that does`,
  );
}

function loadError(message: string, cause?: unknown): AppError {
  return mediaError('media/load', message, cause);
}

function unreachable(path: string, error: unknown) {
  const hidden = HIDDEN.test(path)
    ? '. The daemon sees nothing of /home, /root, /tmp and /var/tmp: mount or move it elsewhere, as to /mnt'
    : '';
  const why = systemCodeOf(error) === 'ENOENT' ? 'there is no such file or folder' : reasonOf(error);
  return loadError(`${path} can't be opened: ${why}${hidden}`, error);
}

async function isSame(path: string, identity: string): Promise<boolean> {
  return (await identityOf(path).catch(() => undefined)) === identity;
}

/** A later file or directory at the path has another identity. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, birthtimeNs } = await lstat(path, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs}`;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ESTALE'].includes(systemCodeOf(error) ?? '')) return undefined;
    throw error;
  }
}

/**
 * The most simultaneous calls to one medium, and to all media of this node. A call that hangs in a
 * device keeps a thread of Node.js. INVARIANT: `UV_THREADPOOL_SIZE` in `systemd/stickpin.service`
 * is larger than `ofAll`, so that other files always have threads. Three reads of up to 1 MiB keep
 * any medium busy.
 */
export const MEDIUM_CALLS = { ofOne: 3, ofAll: 6 } as const;

/** Calls end at once when their signal aborts, so that no try of a pull adds one that hangs. */
export function boundedBundle<T extends BundleAccess>(bundle: T, places: Places): T {
  const { reader } = bundle;
  const bounded: BundleReader = {
    ...boundedSource(reader, places),
    path: reader.path,
    hold: (run) => boundedHold(reader, run, places),
    readFile: (name, maxBytes, signal) => inPlace(places, signal, () => reader.readFile(name, maxBytes, signal)),
  };
  return { ...bundle, blobs: boundedSource(bundle.blobs, places), reader: bounded };
}

function boundedSource(source: BlobSource, places: Places): BlobSource {
  return {
    sizeOf: (digest, signal) => inPlace(places, signal, () => source.sizeOf(digest, signal)),
    read: (digest, startByte, signal, allocate) =>
      boundedStream(source.read(digest, startByte, signal, allocate), signal, places),
  };
}

/** A place for each chunk, so that a stream whose consumer waits has none. */
async function* boundedStream(
  stream: AsyncIterable<Buffer>,
  signal: AbortSignal,
  places: Places,
): AsyncGenerator<Buffer, void, undefined> {
  const chunks = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await inPlace(places, signal, () => chunks.next());
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    const closed = Promise.resolve(chunks.return?.());
    // A read may hang after an abort. The source closes its file when that read ends.
    if (signal.aborted) closed.catch(() => undefined);
    else await closed;
  }
}

async function boundedHold<T>(reader: BundleReader, run: () => Promise<T>, places: Places): Promise<T> {
  const leave = await places.take(NEVER_ABORTED);
  let isOpen = false;
  const opened = (): void => {
    if (!isOpen) leave();
    isOpen = true;
  };
  try {
    return await reader.hold(() => {
      opened();
      return run();
    });
  } finally {
    opened();
  }
}
