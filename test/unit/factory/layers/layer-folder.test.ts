import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { readFolderInLayers } from '../../../../src/factory/layers/layer-folder.ts';
import { seededBytes } from '../../../support/bundles/sample-image.ts';
import { type TarMember, tarArchive } from '../../../support/bundles/tar-archive.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const PATH = 'etc/app/list';
let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

const file = (text: string, path = PATH): TarMember => ({ path, bytes: Buffer.from(text) });

function put(bytes: Buffer, at: number) {
  const path = join(root, `layer-${at}`);
  writeFileSync(path, bytes);
  return { path, what: 'the layer' };
}

const limits = { fileBytes: 1000, totalBytes: 1500 };

async function readFile(layers: readonly ReturnType<typeof put>[], path: string): Promise<string | undefined> {
  const found = await readFolderInLayers(layers, dirname(path), limits, signal);
  return found.get(basename(path))?.toString();
}

async function readIn(layers: readonly (readonly TarMember[])[]): Promise<string | undefined> {
  const paths = layers.map((members, at) =>
    put(at % 2 === 0 ? gzipSync(tarArchive(members)) : tarArchive(members), at),
  );
  return readFile(paths, PATH);
}

describe('readFolderInLayers', () => {
  it.each<[string, TarMember[][], string | undefined]>([
    ['finds it in the only layer', [[file('a')]], 'a'],
    ['takes the highest layer', [[file('a')], [file('b')], [file('x', 'etc/other')]], 'b'],
    ['takes the last one of a layer', [[file('a'), file('b')]], 'b'],
    ['reads names with ./ and /', [[file('a', `./${PATH}`)], [file('b', `/${PATH}`)]], 'b'],
    ['reads an empty file', [[file('a')], [file('')]], ''],
    ['reads a file that fills its blocks', [[file('x'.repeat(512)), file('y', 'z')]], 'x'.repeat(512)],
    ['finds none', [[file('a', 'etc/app/list.old')], []], undefined],
    ['respects a whiteout', [[file('a')], [file('', 'etc/app/.wh.list')]], undefined],
    ['respects a whiteout of a folder', [[file('a')], [file('', './etc/.wh.app')]], undefined],
    ['respects an opaque folder', [[file('a')], [file('', 'etc/app/.wh..wh..opq')]], undefined],
    ['respects an opaque root', [[file('a')], [file('', '.wh..wh..opq')]], undefined],
    ['takes what its own layer has beside a whiteout', [[file('a')], [file('b'), file('', 'etc/.wh.app')]], 'b'],
    ['takes what comes above a whiteout', [[file('a')], [file('', 'etc/app/.wh.list')], [file('b')]], 'b'],
    [
      'does not care for whiteouts of others',
      [[file('a')], [file('', 'etc/app/.wh.lis'), file('', 'etc/.wh.list')]],
      'a',
    ],
    ['knows that a folder became a file', [[file('a')], [file('', 'etc/app')]], undefined],
    ['knows that a folder stays one', [[file('a')], [{ path: 'etc/' }, { path: 'etc/app/' }]], 'a'],
  ])('%s', async (_name, layers, expected) => {
    expect(await readIn(layers)).toBe(expected);
  });

  it('reads zstd, long names of GNU and of pax, as tar writes them', async () => {
    const long = `deep/${'folder-'.repeat(20)}/list`;
    mkdirSync(join(root, 'tree', long, '..'), { recursive: true });
    writeFileSync(join(root, 'tree', long), 'found');
    for (const format of ['gnu', 'posix']) {
      const packed = spawnSync('tar', [
        `--format=${format}`,
        '-C',
        join(root, 'tree'),
        '-cf',
        join(root, format),
        'deep',
      ]);
      expect(packed.status).toBe(0);
      const tar = readFileSync(join(root, format));
      const block = Buffer.alloc(3);
      block.writeUIntLE((tar.length << 3) | 1, 0, 3);
      const zstd = Buffer.concat([Buffer.from('28b52ffd0038', 'hex'), block, tar]);
      expect(await readFile([put(zstd, 0)], long)).toBe('found');
    }
  });

  it('refuses what is too large, or no layer', async () => {
    const why = (layer: ReturnType<typeof put>, text: string) =>
      expect(readFile([layer], PATH)).rejects.toMatchObject({
        code: 'bundle/source',
        message: expect.stringContaining(text),
      });
    await why(put(tarArchive([file('x'.repeat(1001))]), 0), `${PATH} in the layer has 1001 bytes`);
    await why(put(seededBytes('no tar', 5000), 1), 'not a tar archive');
    await why(put(gzipSync(tarArchive([file('x')])).subarray(0, 40), 2), "gzip can't be unpacked");
    await why({ path: join(root, 'none'), what: 'layer 3' }, "layer 3 can't be read");
    mkdirSync(join(root, 'tree', 'etc', 'app'), { recursive: true });
    symlinkSync('nowhere', join(root, 'tree', PATH));
    expect(spawnSync('tar', ['-C', join(root, 'tree'), '-cf', join(root, 'link'), 'etc']).status).toBe(0);
    const [below, link] = [put(tarArchive([file('below')]), 3), { path: join(root, 'link'), what: 'it' }];
    expect(await readFile([below, link], PATH)).toBeUndefined();
    await why(
      put(tarArchive([1, 2].map((at) => file('x'.repeat(800), `etc/app/${at}`))), 4),
      'etc/app in the layer has more than 1500 bytes',
    );
  });

  it('reads all files of the folder, each from the highest layer that has it', async () => {
    const one = put(tarArchive([file('a1', 'etc/app/a'), file('b1', 'etc/app/b'), file('c1', 'etc/app/c')]), 0);
    const two = put(tarArchive([file('b2', 'etc/app/b'), file('', 'etc/app/.wh.c'), file('d', 'etc/app/sub/d')]), 1);
    const found = await readFolderInLayers([one, two], 'etc/app', limits, signal);
    expect(Object.fromEntries([...found].map(([name, bytes]) => [name, bytes.toString()]))).toEqual({
      a: 'a1',
      b: 'b2',
    });
  });

  it('counts the size of a file once that a higher layer replaces', async () => {
    const big = () => tarArchive([file('x'.repeat(900))]);
    expect(await readFile([put(big(), 0), put(big(), 1)], PATH)).toBe('x'.repeat(900));
  });
});
