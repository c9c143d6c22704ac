import assert from 'node:assert/strict';
import { readTarMembers } from '../../../src/bundle/format/tar-header.ts';
import { readArchives } from '../../../src/factory/archive/read-archives.ts';
import { unzstd } from '../../../src/factory/layers/packed-file.ts';
import { TarWalker } from '../../../src/factory/layers/tar-walker.ts';
import { stickPartitions } from '../../../src/factory/stick/partitions.ts';
import { systemCodeOf } from '../../../src/platform/app-error.ts';
import { sumUp } from '../../support/bundles/tar-archive.ts';
import { inMemoryFile } from '../../support/files/in-memory-file.ts';
import { cut, read, readLater, type Target, withFile } from '../target.ts';

const never = new AbortController().signal;

/** The first byte is the size of the chunks. A mutated header gets its checksum again. */
const tar: Target = async (data) => {
  const archive = summedUp(data.subarray(1));
  const whole = read(() => walk(archive, archive.length || 1));
  const chunked = read(() => walk(archive, (data[0] ?? 0) + 1));
  assert.deepEqual(chunked, whole);
  const members = readTarMembers(inMemoryFile(archive), archive.length, never);
  await readLater(async () => {
    for await (const { offset, sizeBytes } of members) {
      assert(sizeBytes >= 0 && (sizeBytes === 0 || offset + sizeBytes <= archive.length));
    }
  });
};

function walk(archive: Buffer, chunkBytes: number): unknown[] {
  const members: unknown[] = [];
  const walker = new TarWalker((member) => {
    const { storedBytes, unpackedBytes } = member;
    assert(Number.isSafeInteger(storedBytes) && storedBytes >= 0);
    assert(Number.isSafeInteger(unpackedBytes) && unpackedBytes >= 0);
    const seen = { member, bytes: 0 };
    members.push(seen);
    return (bytes) => {
      seen.bytes += bytes.length;
    };
  });
  for (const chunk of cut(archive, chunkBytes)) walker.write(chunk);
  walker.end();
  return members;
}

/** A copy in which each block that looks like a header has the right checksum. */
function summedUp(data: Buffer): Buffer {
  const archive = Buffer.from(data);
  for (const block of cut(archive, 512)) {
    if (block.length === 512 && block[257] === 'u'.charCodeAt(0)) sumUp(block);
  }
  return archive;
}

/** Images of another tool, of which nothing is written outside of the folder. */
const archive: Target = (data) =>
  withFile(summedUp(data), async (file, folder) => {
    const options = { folder, arch: 'amd64', choice: {}, referrers: 'all', registry: 'quay.io' } as const;
    await readLater(() => readArchives([file], { ...options, onProgress: () => undefined }, never));
  });

/** More says nothing about boundaries. */
const MOST_UNPACKED = 1024 * 1024;

/** The first byte is the size of the chunks. */
const zstd: Target = async (data) => {
  const packed = data.subarray(1);
  const whole = await unpacked(packed, packed.length || 1);
  assert.deepEqual(await unpacked(packed, (data[0] ?? 0) + 1), whole);
};

/** Returns undefined for what is damaged, or too large. */
async function unpacked(packed: Buffer, chunkBytes: number): Promise<Buffer | undefined> {
  const found: Buffer[] = [];
  let bytes = 0;
  try {
    const chunks = (async function* () {
      yield* cut(packed, chunkBytes);
    })();
    for await (const part of unzstd(chunks, 16 * 1024)) {
      found.push(part);
      bytes += part.length;
      if (bytes > MOST_UNPACKED) return undefined;
    }
    return Buffer.concat(found);
  } catch (error) {
    const isKnown = error instanceof RangeError || systemCodeOf(error)?.startsWith('ZSTD_') === true;
    if (!isKnown) throw error;
    return undefined;
  }
}

const partitions: Target = async (data) => {
  const found = await stickPartitions(inMemoryFile(data));
  assert(found.length <= 128);
  for (const { offset, unitBytes } of found) assert(offset >= 0 && offset <= data.length && unitBytes >= 0);
};

export const layerTargets: Readonly<Record<string, Target>> = {
  archive,
  tar,
  zstd,
  partitions,
};
