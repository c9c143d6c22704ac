import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Trust } from '../../../../src/bundle/keys/trust.ts';
import { openBundle } from '../../../../src/bundle/read/open-bundle.ts';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { readBundles } from '../../../support/bundles/read-bundles.ts';
import { makeSampleBundle, type SampleBundle, trustIn } from '../../../support/bundles/sample-bundle.ts';
import { folderForAll, folderForEach } from '../../../support/files/temporary-folder.ts';
import { coded } from '../../../support/matching.ts';

const { signal } = new AbortController();
const scratch = folderForAll();
let pristine: SampleBundle;
let trust: Trust;
const root = folderForEach();
let file: string;

beforeAll(async () => {
  pristine = await makeSampleBundle({ dir: scratch });
  trust = await trustIn(pristine.keys, scratch);
});
beforeEach(() => {
  mkdirSync(join(root, 'stickpin'));
  file = join(root, 'stickpin', 'anything.stickpin.tar');
});

const members = ['bundle.dsse.json', 'oci-layout', 'index.json', 'blobs'];

function tar(names: readonly string[] = members, ...options: readonly string[]): void {
  execFileSync('tar', [...options, '-cf', file, '-C', pristine.path, ...names]);
}

async function judged() {
  const [only, ...more] = await readBundles(root, { trust, layout: 'medium' }, signal);
  expect(more).toEqual([]);
  return only ?? expect.unreachable('nothing was found');
}

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

describe('a bundle in a tar file', () => {
  it.each(['gnu', 'posix', 'ustar'])('is verified in place, written as %s', async (format) => {
    for (const names of [members, members.map((name) => `./${name}`), ['bundle.dsse.json', '.']]) {
      tar(names, `--format=${format}`);
      expect(await judged()).toMatchObject({
        kind: 'verified',
        path: 'stickpin/anything.stickpin.tar',
        bundle: { bundleId: pristine.bundleId, contents: pristine.contents },
        missing: [],
      });
    }
  });

  it('streams its blobs from any byte', async () => {
    tar();
    const reader = openBundle(file);
    for (const { digest, sizeBytes } of pristine.contents.layers) {
      const bytes = readFileSync(join(pristine.path, 'blobs', 'sha256', digest.slice(7)));
      expect(await reader.sizeOf(digest, signal)).toBe(sizeBytes);
      expect((await collect(reader.read(digest, 1000, signal))).equals(bytes.subarray(1000))).toBe(true);
      expect(await collect(reader.read(digest, sizeBytes, signal))).toHaveLength(0);
    }
    const absent = `sha256:${'0'.repeat(64)}` as Digest;
    expect(await reader.sizeOf(absent, signal)).toBeUndefined();
    await expect(collect(reader.read(absent, 0, signal))).rejects.toMatchObject({ code: 'media/gone' });
  });

  it('must begin with its envelope', async () => {
    tar(['oci-layout', 'bundle.dsse.json', 'index.json', 'blobs']);
    expect(await judged()).toMatchObject({
      kind: 'rejected',
      reason: coded('bundle/tar', 'first member'),
    });
  });

  it('has its envelope judged before any other header is read', async () => {
    tar();
    const bytes = readFileSync(file);
    const envelopeBytes = statSync(join(pristine.path, 'bundle.dsse.json')).size;
    bytes.fill(0xff, 512 + Math.ceil(envelopeBytes / 512) * 512);
    writeFileSync(file, bytes);
    const strangers = await trustIn([], scratch);
    const [stranger] = await readBundles(root, { trust: strangers, layout: 'medium' }, signal);
    expect(stranger).toMatchObject({ reason: { code: 'bundle/no-key' } });
    expect(await judged()).toMatchObject({ reason: coded('bundle/tar', file) });
  });

  it('that is cut off lacks the members after the cut', async () => {
    tar([
      'bundle.dsse.json',
      'oci-layout',
      'index.json',
      `blobs/sha256/${pristine.payload.contents.digest.slice(7)}`,
      'blobs',
    ]);
    truncateSync(file, statSync(file).size / 2);
    const found = await judged();
    if (found.kind !== 'verified') throw new Error(JSON.stringify(found));
    expect(new Set(found.missing.map((blob) => blob.why))).toEqual(new Set(['absent', 'truncated']));
    truncateSync(file, 512 + 100);
    expect(await judged()).toMatchObject({ kind: 'rejected', reason: { code: 'bundle/envelope' } });
    truncateSync(file, 0);
    expect(await judged()).toMatchObject({ kind: 'rejected', reason: { code: 'bundle/tar' } });
  });

  it('is not found through a link', async () => {
    tar();
    symlinkSync(file, join(root, 'stickpin', 'link.stickpin.tar'));
    expect(await judged()).toMatchObject({ path: 'stickpin/anything.stickpin.tar' });
  });

  it('is scanned again when the first reader aborts', async () => {
    tar();
    const reader = openBundle(file);
    const first = new AbortController();
    const { digest, sizeBytes } = pristine.contents.layers[0] ?? expect.unreachable();
    const both = Promise.allSettled([reader.sizeOf(digest, first.signal), reader.sizeOf(digest, signal)]);
    first.abort(new Error('stop'));
    expect(await both).toEqual([
      { status: 'rejected', reason: new Error('stop') },
      { status: 'fulfilled', value: sizeBytes },
    ]);
  });

  it('survives any damage', async () => {
    tar();
    const before = readFileSync(file);
    await fc.assert(
      fc.asyncProperty(fc.nat(before.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const bytes = Buffer.from(before);
        bytes[at] = (bytes[at] ?? 0) ^ change;
        writeFileSync(file, bytes);
        const found = await judged();
        if (found.kind === 'verified') expect(found.bundle).toEqual({ ...found.bundle, payload: pristine.payload });
      }),
      { numRuns: 200 },
    );
  });
});
