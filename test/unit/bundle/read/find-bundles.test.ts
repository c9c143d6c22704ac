import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BundleLayout, findBundles } from '../../../../src/bundle/read/find-bundles.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'stickpin-find-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

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
      'w.stickpin.tar: bundle/misplaced',
    ]);
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
    put('stickpin/half/oci-layout', 'stickpin/x.tar');
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
