import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import { NEVER_ABORTED } from '../platform/async/abort.ts';
import { inPlace, type Places } from '../platform/async/places.ts';
import type { BlobSource } from '../ports/blobs.ts';
import type { BundleAccess } from './provider/media-provider.ts';

/**
 * How many calls to one medium, and to all media of this node, may be in the system at the same
 * time. A call that hangs in a device keeps a thread of Node.js until the device answers or is
 * gone. INVARIANT: `UV_THREADPOOL_SIZE` in `systemd/stickpin.service` is larger than `ofAll`, so
 * that threads are left for all other files. Three reads of up to 1 MiB keep any medium busy.
 */
export const MEDIUM_CALLS = { ofOne: 3, ofAll: 6 } as const;

/**
 * The same bundle, whose calls take places of its medium, and end at once when their signal aborts.
 * Without that, each try of a pull would add calls that hang, until no file can be read any more.
 */
export function boundedBundle<T extends BundleAccess>(bundle: T, places: Places): T {
  const { reader } = bundle;
  return {
    ...bundle,
    blobs: boundedSource(bundle.blobs, places),
    reader: {
      ...boundedSource(reader, places),
      path: reader.path,
      hold: (run) => boundedHold(reader, run, places),
      readFile: (name, maxBytes, signal) => inPlace(places, signal, () => reader.readFile(name, maxBytes, signal)),
    } satisfies BundleReader,
  };
}

function boundedSource(source: BlobSource, places: Places): BlobSource {
  return {
    sizeOf: (digest, signal) => inPlace(places, signal, () => source.sizeOf(digest, signal)),
    read: (digest, startByte, signal, allocate) =>
      boundedStream(source.read(digest, startByte, signal, allocate), signal, places),
  };
}

/** Takes a place for each chunk, so that a stream whose consumer waits has none. */
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
    // After an abort a read may hang, and the source closes its file when that is over.
    if (signal.aborted) closed.catch(() => undefined);
    else await closed;
  }
}

/** Has a place while the bundle is opened. The calls of `run` take their own. */
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
