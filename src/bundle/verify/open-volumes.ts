import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digest } from '../../domain/model/digest.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import type { FileBundleReader } from '../read/bundle-reader.ts';
import { openBundle } from '../read/open-bundle.ts';
import { readEnvelope } from './judge-bundle.ts';
import { bundleIdOf } from './verify-envelope.ts';

/** `DIR/1`, `DIR/2` … in order; empty when there are none. */
export async function volumesIn(path: string): Promise<string[]> {
  const names = await readdir(path).catch(() => []);
  const numbers = names.filter((name) => /^[1-9]\d{0,3}$/.test(name)).map(Number);
  return numbers
    .sort((a, b) => a - b)
    .slice(0, limits.folderEntries)
    .map((number) => join(path, String(number)));
}

/**
 * Small files come from the first volume, each blob from the one that has it.
 *
 * @throws AppError `bundle/inconsistent` for a volume of another bundle; as `readEnvelope()`
 */
export async function openVolumes(
  path: string,
  volumes: readonly [string, ...string[]],
  signal: AbortSignal,
): Promise<FileBundleReader> {
  const readers = volumes.map((volume) => openBundle(volume));
  const first = openBundle(volumes[0]);
  const bundleId = bundleIdOf((await readEnvelope(first, signal)).payload);
  for (const reader of readers) {
    if (bundleIdOf((await readEnvelope(reader, signal)).payload) === bundleId) continue;
    throw bundleError(
      'bundle/inconsistent',
      `${quotedPath(reader.path)} is a volume of another bundle than ${quotedPath(first.path)}`,
    );
  }
  /** The first volume of all when none has the blob. */
  const holderOf = async (digest: Digest, inner: AbortSignal): Promise<FileBundleReader> => {
    for (const reader of readers) if ((await reader.sizeOf(digest, inner)) !== undefined) return reader;
    return first;
  };
  return {
    path,
    hold: (run) => readers.reduceRight((inner: typeof run, reader) => () => reader.hold(inner), run)(),
    readFile: first.readFile,
    sizeOf: async (digest, inner) => {
      for (const reader of readers) {
        const sizeBytes = await reader.sizeOf(digest, inner);
        if (sizeBytes !== undefined) return sizeBytes;
      }
      return undefined;
    },
    placeOf: async (digest, inner) => (await holderOf(digest, inner)).placeOf(digest, inner),
    async *read(digest, startByte, inner, allocate) {
      yield* (await holderOf(digest, inner)).read(digest, startByte, inner, allocate);
    },
  };
}
