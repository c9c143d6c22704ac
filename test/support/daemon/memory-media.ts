import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BundleReader } from '../../../src/bundle/read/bundle-reader.ts';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import type { MediaProvider, MediaSink, PluggedMedium } from '../../../src/media/media-provider.ts';
import { AppError } from '../../../src/platform/app-error.ts';

/** The files of a bundle by their names in it, as `blobs/sha256/<hex>`. */
export type BundleFiles = ReadonlyMap<string, Buffer>;

/** Reads all files of a bundle directory into memory. */
export function readBundleFiles(path: string): BundleFiles {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const files = entries.map((entry) => join(entry.parentPath, entry.name));
  return new Map(files.map((file) => [file.slice(path.length + 1), readFileSync(file)]));
}

/**
 * A provider of one medium that is not a directory: its bundle is in memory, as one of another node
 * would be behind the network.
 */
export interface MemoryMedia extends MediaProvider {
  plug(files: BundleFiles): void;
  unplug(): void;
  /** Blobs that were asked for, in order. */
  readonly blobsRead: readonly Digest[];
  /** How many blobs are being read. */
  openReads(): number;
  /** Reads that begin from now on wait for the returned function. */
  hold(): () => void;
}

/** A provider with nothing plugged in. */
export function createMemoryMedia(mediumId = 'peer:node-2', label = 'node-2'): MemoryMedia {
  const blobsRead: Digest[] = [];
  let openReads = 0;
  let held: Promise<void> | undefined;
  let sink: MediaSink | undefined;
  let plugged: BundleFiles | undefined;
  const mediumOf = (files: BundleFiles): PluggedMedium => {
    const reader = memoryReader(mediumId, () => plugged === files, files);
    const read: BundleReader['read'] = async function* (digest, startByte, signal) {
      blobsRead.push(digest);
      openReads += 1;
      try {
        await held;
        yield* reader.read(digest, startByte, signal);
      } finally {
        openReads -= 1;
      }
    };
    return {
      mediumId,
      label,
      isDropFolder: false,
      open: async () => ({
        place: 'https://node-2.example.com',
        findBundles: async () => [{ kind: 'bundle', path: 'ocp', reader, blobs: { sizeOf: reader.sizeOf, read } }],
      }),
      isThere: async () => plugged === files,
      release: async () => undefined,
    };
  };
  return {
    blobsRead,
    openReads: () => openReads,
    hold: () => {
      let letGo = () => {};
      held = new Promise((resolve) => {
        letGo = () => {
          held = undefined;
          resolve();
        };
      });
      return letGo;
    },
    start: async (to) => {
      sink = to;
      if (plugged !== undefined) to.arrived(mediumOf(plugged));
    },
    rescan: async () => undefined,
    dispose: async () => undefined,
    plug: (files) => {
      plugged = files;
      sink?.arrived(mediumOf(files));
    },
    unplug: () => {
      plugged = undefined;
      sink?.left(mediumId);
    },
  };
}

function memoryReader(mediumId: string, isThere: () => boolean, files: BundleFiles): BundleReader {
  const fileNamed = (name: string): Buffer | undefined => {
    if (isThere()) return files.get(name);
    throw new AppError({ code: 'media/gone', message: `${mediumId} does not answer`, disposition: 'wait' });
  };
  const blob = (digest: Digest) => fileNamed(`blobs/sha256/${hexOf(digest)}`);
  return {
    path: mediumId,
    hold: (run) => run(),
    readFile: async (name) => {
      const bytes = fileNamed(name);
      if (bytes !== undefined) return bytes;
      throw new AppError({ code: 'bundle/absent', message: `${mediumId} has no ${name}`, disposition: 'reject' });
    },
    sizeOf: async (digest) => blob(digest)?.length,
    async *read(digest, startByte) {
      yield blob(digest)?.subarray(startByte) ?? Buffer.alloc(0);
    },
  };
}
