import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadTrustedKeys, readKeyFile, type Trust } from '../../../src/bundle/keys/trust.ts';
import type { FoundBundle } from '../../../src/domain/model/medium.ts';
import { readImagesFile } from '../../../src/factory/images/images-file.ts';
import { readBundles } from '../../support/bundles/read-bundles.ts';
import { makeSampleBundle, type SampleBundle, trustIn } from '../../support/bundles/sample-bundle.ts';
import { folderForAll, folderForEach } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
/** More than anybody could read; a hole, which takes no space. */
const ENDLESS_BYTES = 2 ** 42;
const scratch = folderForAll();
let pristine: SampleBundle;
let trust: Trust;
const root = folderForEach();

beforeAll(async () => {
  pristine = await makeSampleBundle({ dir: scratch });
  trust = await trustIn(pristine.keys, scratch);
});
beforeEach(() => {
  mkdirSync(join(root, 'stickpin'));
});

const at = (...names: string[]) => join(root, 'stickpin', ...names);
const copyAs = (name: string) => cpSync(pristine.path, at(name), { recursive: true });
const blobOf = (digest: string, name = 'it') => at(name, 'blobs', 'sha256', digest.slice('sha256:'.length));

function endless(file: string): void {
  writeFileSync(file, '');
  truncateSync(file, ENDLESS_BYTES);
}

const read = (): Promise<FoundBundle[]> => readBundles(root, { trust, layout: 'medium' }, signal);

/** Each bundle's path below `stickpin` with its code, or with how much of it is missing. */
async function outcome(): Promise<Record<string, string | number>> {
  const found = await read();
  return Object.fromEntries(
    found.map((one) => [
      one.path.replace(/^stickpin\//, ''),
      one.kind === 'verified' ? one.missing.length : one.kind === 'rejected' ? one.reason.code : one.kind,
    ]),
  );
}

describe('files that never end', () => {
  it.each([
    ['the envelope', () => at('it', 'bundle.dsse.json'), 'bundle/digest'],
    ['index.json', () => at('it', 'index.json'), 'bundle/digest'],
    ['contents.json', () => blobOf(pristine.payload.contents.digest), 'bundle/digest'],
  ])('are not read: %s', async (_name, file, code) => {
    copyAs('it');
    copyAs('good');
    endless(file());
    expect(await outcome()).toEqual({ good: 0, it: code });
  });

  it('are not read: documents and layers', async () => {
    copyAs('it');
    const digests = [pristine.images[0]?.image.manifest.digest, pristine.contents.layers[0]?.digest].map(String);
    for (const digest of digests) endless(blobOf(digest));
    const [found] = await read();
    expect(found?.kind === 'verified' && found.missing).toEqual(
      digests.map((digest) => ({ digest, why: 'truncated' })),
    );
  });

  it('are not read: keys, revocations and lists of images', async () => {
    const keys = join(root, 'keys');
    cpSync(trust.keys.folder, keys, { recursive: true });
    endless(join(keys, 'endless.pub'));
    const { keys: kept, problems } = await loadTrustedKeys(keys, signal);
    expect(kept).toHaveLength(1);
    expect(problems[0]?.message).toContain('endless.pub');
    endless(join(keys, 'endless.revoked'));
    expect((await loadTrustedKeys(keys, signal)).keys).toEqual([]);
    await expect(readKeyFile(join(keys, 'endless.pub'), signal)).rejects.toMatchObject({ code: 'bundle/key-file' });
    await expect(readImagesFile(join(keys, 'endless.pub'), signal)).rejects.toMatchObject({ code: 'bundle/option' });
  });

  it('are not read: a sparse archive, and one whose members have huge sizes', async () => {
    endless(at('hole.stickpin.tar'));
    execFileSync('tar', [
      ...['-cf', at('big.stickpin.tar'), '-C', pristine.path, 'bundle.dsse.json', 'index.json'],
      ...['blobs'],
    ]);
    const bytes = readFileSync(at('big.stickpin.tar'));
    // GNU's base-256 size of the first member, beyond what any file can have.
    bytes.set([0x80, 0, 0, 0, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 124);
    bytes.write('        ', 148);
    bytes.write(
      `${bytes
        .subarray(0, 512)
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0')}\0 `,
      148,
    );
    writeFileSync(at('big.stickpin.tar'), bytes);
    expect(Object.keys(await outcome())).toEqual(['big.stickpin.tar', 'hole.stickpin.tar']);
    for (const found of await read()) expect(found.kind).toBe('rejected');
  });
});

describe('what is not a regular file', () => {
  it.each([
    ['a pipe', (path: string) => execFileSync('mkfifo', [path])],
    ['a directory', (path: string) => mkdirSync(path)],
    ['a link to the right file', (path: string) => symlinkSync(join(scratch, 'moved'), path)],
    ['a link to itself', (path: string) => symlinkSync(path, path)],
    ['a link to a device', (path: string) => symlinkSync('/dev/zero', path)],
  ])('is not opened: %s', async (_name, put) => {
    const places = {
      envelope: 'bundle.dsse.json',
      index: 'index.json',
      contents: join('blobs', 'sha256', pristine.payload.contents.digest.slice('sha256:'.length)),
      layer: join('blobs', 'sha256', String(pristine.contents.layers[0]?.digest).slice('sha256:'.length)),
    };
    for (const [name, place] of Object.entries(places)) {
      copyAs(name);
      cpSync(at(name, place), join(scratch, 'moved'));
      rmSync(at(name, place));
      put(at(name, place));
    }
    put(at('x.stickpin.tar'));
    copyAs('good');
    expect(await outcome()).toEqual({
      contents: 'bundle/digest',
      envelope: 'bundle/link',
      good: 0,
      index: 'bundle/link',
      layer: 1,
    });
  });

  it.each([
    ['the bundle', ''],
    ['blobs', 'blobs'],
    ['blobs/sha256', 'blobs/sha256'],
  ])('is not followed: a link for %s', async (_name, place) => {
    copyAs('it');
    copyAs('good');
    renameSync(at('it', place), join(root, 'moved'));
    symlinkSync(join(root, 'moved'), at('it', place));
    const found = await outcome();
    expect(found.good).toBe(0);
    expect(found.it).toBe(place === '' ? undefined : 'bundle/link');
  });
});

describe('names', () => {
  it('that differ in case only are named, and hide no other bundle', async () => {
    for (const name of ['good', 'envelope', 'index', 'blobs']) copyAs(name);
    const twice = (path: string, names: readonly string[]) => {
      for (const name of names) cpSync(path, join(path, '..', name), { recursive: true });
      rmSync(path, { recursive: true });
    };
    twice(at('envelope', 'bundle.dsse.json'), ['BUNDLE.DSSE.JSON', 'Bundle.dsse.json']);
    twice(at('index', 'index.json'), ['INDEX.JSON', 'Index.json']);
    twice(at('blobs', 'blobs'), ['BLOBS', 'Blobs']);
    expect(await outcome()).toEqual({
      blobs: 'bundle/ambiguous',
      envelope: 'bundle/ambiguous',
      good: 0,
      index: 'bundle/ambiguous',
    });
    const [first] = await read();
    expect(first?.kind === 'rejected' && first.reason.message).toContain('BLOBS and Blobs');
  });

  it('of the folder itself that differ in case only are named', async () => {
    copyAs('good');
    cpSync(at(), join(root, 'STICKPIN'), { recursive: true });
    renameSync(at(), join(root, 'Stickpin'));
    const found = await read();
    expect(found).toMatchObject([{ kind: 'rejected', reason: { code: 'bundle/ambiguous' } }]);
  });

  it('in capitals are found, down to the blobs', async () => {
    copyAs('it');
    renameSync(at('it', 'bundle.dsse.json'), at('it', 'BUNDLE.DSSE.JSON'));
    renameSync(at('it', 'index.json'), at('it', 'INDEX.JSON'));
    renameSync(at('it', 'blobs', 'sha256'), at('it', 'blobs', 'SHA256'));
    renameSync(at('it', 'blobs'), at('it', 'BLOBS'));
    renameSync(at('it'), at('IT'));
    renameSync(at(), join(root, 'STICKPIN'));
    expect(await read()).toMatchObject([{ kind: 'verified', missing: [] }]);
  });

  it('that are not text or have the maximum length are read as any other', async () => {
    copyAs('good');
    mkdirSync(Buffer.concat([Buffer.from(`${at()}/`), Buffer.from([0xff, 0xfe, 0x0a])]));
    mkdirSync(at('x'.repeat(255)));
    writeFileSync(at(`${'y'.repeat(242)}.stickpin.tar`), '');
    const found = await outcome();
    expect(found.good).toBe(0);
    expect(Object.keys(found)).toHaveLength(2);
  });
});

describe('names that read as sentences', () => {
  const LIE = 'ocp. Leave the stick in. See x; remove "it';

  it.each<readonly [string, () => void, string]>([
    ['without its index', () => rmSync(at(LIE, 'index.json')), 'bundle/absent'],
    ['with an envelope that is too large', () => endless(at(LIE, 'bundle.dsse.json')), 'bundle/digest'],
    [
      'with a link for its blobs',
      () => {
        renameSync(at(LIE, 'blobs'), join(root, 'moved'));
        symlinkSync(join(root, 'moved'), at(LIE, 'blobs'));
      },
      'bundle/link',
    ],
    [
      'with two indexes',
      () => {
        cpSync(at(LIE, 'index.json'), at(LIE, 'INDEX.json'));
        renameSync(at(LIE, 'index.json'), at(LIE, 'Index.json'));
      },
      'bundle/ambiguous',
    ],
    [
      'with a link for its envelope',
      () => {
        rmSync(at(LIE, 'bundle.dsse.json'));
        symlinkSync('x', at(LIE, 'bundle.dsse.json'));
      },
      'bundle/link',
    ],
    [
      'in an archive that is none',
      () => {
        rmSync(at(LIE), { recursive: true });
        writeFileSync(at(`${LIE}.stickpin.tar`), 'x'.repeat(2048));
      },
      'bundle/tar',
    ],
  ])('stand in quotes in messages: a bundle %s', async (_what, spoil, code) => {
    copyAs(LIE);
    spoil();
    const [found] = await read();
    expect(found).toMatchObject({ kind: 'rejected', reason: { code } });
    const message = found?.kind === 'rejected' ? found.reason.message : '';
    expect(message).toContain(`"${LIE.replace('"', "'")}`);
    expect(message.replaceAll(/"[^"]*"/g, '')).not.toMatch(/Leave|See x/);
  });
});

describe('many entries', () => {
  it('beyond the limit are reported, with what to do', async () => {
    for (let count = 0; count < 1001; count += 1) writeFileSync(at(`x${count}`), '');
    copyAs('good');
    const found = await read();
    expect(found).toMatchObject([
      { kind: 'verified' },
      { kind: 'rejected', path: 'stickpin', reason: { code: 'bundle/crowded' } },
    ]);
  });

  it('of another kind among the blobs are ignored', async () => {
    copyAs('it');
    for (let count = 0; count < 20_000; count += 1) writeFileSync(at('it', 'blobs', 'sha256', `x${count}`), '');
    expect(await outcome()).toEqual({ it: 0 });
  });

  it('at the top of the medium are ignored', async () => {
    copyAs('good');
    for (let count = 0; count < 12_000; count += 1) writeFileSync(join(root, `IMG_${count}.JPG`), '');
    expect(await outcome()).toEqual({ good: 0 });
  });
});
