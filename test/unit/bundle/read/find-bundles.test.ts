import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { type BundleLayout, findBundles } from '../../../../src/bundle/read/find-bundles.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

function put(...paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), '');
  }
}

async function find(layout: BundleLayout = 'medium'): Promise<string[]> {
  const found = await findBundles(root, layout, new AbortController().signal);
  return found.map((one) => (one.kind === 'bundle' ? one.path : `${one.path}: ${one.reason.code}`));
}

describe('on a medium', () => {
  it('every directory of stickpin with an envelope is a bundle', async () => {
    put('stickpin/b/bundle.dsse.json', 'stickpin/a/bundle.dsse.json', 'stickpin/notes.txt', 'stickpin/photos/1.jpg');
    expect(await find()).toEqual(['stickpin/a', 'stickpin/b']);
  });

  it('every file called *.stickpin.tar is a bundle too', async () => {
    put('stickpin/x.stickpin.tar', 'stickpin/Y.STICKPIN.TAR', 'stickpin/z.tar', 'w.stickpin.tar');
    expect(await find()).toEqual([
      'stickpin/Y.STICKPIN.TAR',
      'stickpin/x.stickpin.tar',
      'stickpin/z.tar: bundle/misplaced',
      'w.stickpin.tar: bundle/misplaced',
    ]);
  });

  it('is found whatever lies beside its folder, of which a part is looked at', async () => {
    put('stickpin/a/bundle.dsse.json');
    const beside = Array.from({ length: 2_000 }, (_, at) => `photos-${at}/bundle.dsse.json`);
    put(...beside);
    const [first, ...others] = await find();
    expect(first).toBe('stickpin/a');
    expect(others.length).toBeGreaterThan(0);
    expect(others.length).toBeLessThanOrEqual(256);
  });

  it('names may be written in capitals', async () => {
    put('STICKPIN/A/BUNDLE.DSSE.JSON');
    expect(await find()).toEqual(['STICKPIN/A']);
  });

  it('nothing is found on an empty, a foreign and an unplugged one', async () => {
    expect(await find()).toEqual([]);
    put('DCIM/100/1.jpg', 'EFI/BOOT/BOOTX64.EFI');
    expect(await find()).toEqual([]);
    rmSync(root, { recursive: true });
    expect(await find()).toEqual([]);
  });

  it('droppings are ignored by name', async () => {
    for (const name of [
      '._a',
      '.Trash-1000',
      'System Volume Information',
      '$RECYCLE.BIN',
      'lost+found',
      'a~',
      '.a.partial-x',
    ]) {
      put(`stickpin/${name}/bundle.dsse.json`, `${name}/bundle.dsse.json`);
    }
    expect(await find()).toEqual([]);
  });

  it('what looks like a bundle and is none is named with its reason', async () => {
    put('stickpin/half/oci-layout', 'stickpin/x.tgz/photo.jpg');
    expect(await find()).toEqual(['stickpin/half: bundle/incomplete']);
  });

  it('a bundle in the wrong place is named, other things there are not', async () => {
    put('a/bundle.dsse.json', 'b/oci-layout', 'stickpin/c/bundle.dsse.json');
    expect(await find()).toEqual(['stickpin/c', 'a: bundle/misplaced']);
  });

  it('a bundle copied flat into stickpin or onto the top is named', async () => {
    put('stickpin/bundle.dsse.json', 'stickpin/blobs/sha256/x');
    expect(await find()).toEqual(['stickpin: bundle/misplaced']);
    put('bundle.dsse.json');
    expect(await find()).toEqual(['stickpin: bundle/misplaced', ': bundle/misplaced']);
  });

  it('links are not followed', async () => {
    put('elsewhere/real/bundle.dsse.json');
    mkdirSync(join(root, 'stickpin'));
    symlinkSync(join(root, 'elsewhere', 'real'), join(root, 'stickpin', 'link'));
    expect(await find()).toEqual([]);
    rmSync(join(root, 'stickpin'), { recursive: true });
    symlinkSync(join(root, 'elsewhere'), join(root, 'stickpin'));
    expect(await find()).toEqual([]);
  });
});

describe('the advice about a bundle in the wrong place', () => {
  const advised = async (layout: BundleLayout) => {
    const [first] = await findBundles(root, layout, new AbortController().signal);
    if (first?.kind !== 'unreadable') throw new Error('nothing is wrong');
    const [, how = '', to = ''] =
      /(move it|move all of it|rename it|decompress it) (?:to|into its own directory, such as) ([^ ;]+)/.exec(
        first.reason.message,
      ) ?? [];
    return { how, from: first.path, to: to.replace(/\/$/, '').replace('<name>-<version>-<arch>', 'ocp-4.13.7-amd64') };
  };
  /** Does what the text says. */
  const follow = async (layout: BundleLayout) => {
    const { how, from, to } = await advised(layout);
    const [source, target] = [join(root, from), join(root, to)];
    if (how === 'move all of it') {
      const all = readdirSync(source).filter((name) => name !== 'stickpin');
      mkdirSync(target, { recursive: true });
      for (const name of all) renameSync(join(source, name), join(target, name));
    } else {
      mkdirSync(dirname(target), { recursive: true });
      if (how === 'decompress it') execFileSync('sh', ['-c', 'gunzip -c "$0" > "$1" && rm "$0"', source, target]);
      else renameSync(source, target);
    }
  };

  it.each<readonly [string, BundleLayout, string]>([
    ['x.stickpin.tar', 'medium', 'stickpin/x.stickpin.tar'],
    ['ocp/bundle.dsse.json', 'medium', 'stickpin/ocp'],
    ['bundle.dsse.json', 'medium', 'stickpin/ocp-4.13.7-amd64'],
    ['stickpin/bundle.dsse.json', 'medium', 'stickpin/ocp-4.13.7-amd64'],
    ['stickpin/stickpin/ocp/bundle.dsse.json', 'medium', 'stickpin/ocp'],
    ['stickpin/stickpin/x.stickpin.tar', 'medium', 'stickpin/x.stickpin.tar'],
    ['STICKPIN/2026/OCP/BUNDLE.DSSE.JSON', 'medium', 'STICKPIN/OCP'],
    ['stickpin/x.tar', 'medium', 'stickpin/x.stickpin.tar'],
    ['stickpin/x.stickpin.tar.gz', 'medium', 'stickpin/x.stickpin.tar'],
    ['stickpin/x.tgz', 'medium', 'stickpin/x.stickpin.tar'],
    ['2026/ocp/bundle.dsse.json', 'folder', 'ocp'],
    ['x.tar', 'folder', 'x.stickpin.tar'],
  ])('leads to a bundle that is found when it is followed: %s (%s)', async (path, layout, found) => {
    put(path);
    if (/gz$/.test(path)) writeFileSync(join(root, path), gzipSync('bundle'));
    expect(await find(layout)).toEqual([expect.stringMatching(/: bundle\/misplaced$/)]);
    await follow(layout);
    expect(await find(layout)).toEqual([found]);
  });
});

it('quotes names that read as sentences, wherever a message has them', async () => {
  const name = 'x. Leave the stick in. Or not; see it';
  put(
    `${name}/bundle.dsse.json`,
    `stickpin/${name}/oci-layout`,
    `stickpin/${name}.tar`,
    `stickpin/deep/${name}/bundle.dsse.json`,
  );
  const found = await findBundles(root, 'medium', new AbortController().signal);
  const messages = found.map((one) => (one.kind === 'unreadable' ? one.reason.message : ''));
  expect(messages).toHaveLength(4);
  for (const message of messages) {
    expect(message).toContain(`"${name}`);
    expect(message.replaceAll(/"[^"]*"/g, '')).not.toContain('Leave the stick in');
  }
});

describe('in a drop folder', () => {
  it('bundles may also lie directly in it', async () => {
    put('a/bundle.dsse.json', 'half/oci-layout', 'stickpin/b/bundle.dsse.json');
    expect(await find('folder')).toEqual(['stickpin/b', 'a', 'half: bundle/incomplete']);
  });

  it('the folder itself may be one', async () => {
    put('bundle.dsse.json', 'blobs/sha256/x');
    expect(await find('folder')).toEqual(['']);
  });
});
