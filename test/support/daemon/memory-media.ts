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
}

/** A provider with nothing plugged in. */
export function createMemoryMedia(mediumId = 'peer:node-2', label = 'node-2'): MemoryMedia {
  const blobsRead: Digest[] = [];
  let sink: MediaSink | undefined;
  let plugged: BundleFiles | undefined;
  const mediumOf = (files: BundleFiles): PluggedMedium => {
    const reader = memoryReader(mediumId, () => plugged === files, files);
    const read: BundleReader['read'] = (digest, startByte, signal) => {
      blobsRead.push(digest);
      return reader.read(digest, startByte, signal);
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
