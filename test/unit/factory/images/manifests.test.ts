import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { readManifests } from '../../../../src/factory/images/manifests.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const pod = (name: string, image = `quay.io/x/${name}:1`) =>
  `kind: Pod\nmetadata: {name: ${name}}\nspec:\n  containers:\n  - {name: c, image: '${image}'}\n`;

describe('readManifests', () => {
  const { signal } = new AbortController();
  let root: string;
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  beforeEach(() => {
    root = temporaryFolder();
  });

  it('reads all folders in order, and no other files', async () => {
    put('z.yml', `${pod('z')}kind: Pod\n`);
    put('b/deep/er.YAML', pod('deep'));
    put('a.json', '{"spec": {"containers": [{"image": "quay.io/x/json:1"}]}}');
    for (const path of ['notes.txt', 'a.yaml.bak', '.git/x.yaml', '.hidden.yaml']) put(path, pod('not'));
    symlinkSync('z.yml', join(root, 'c.yaml'));
    symlinkSync('b', join(root, 'link.yaml-folder'));
    const { images, notes } = await readManifests(root, signal);
    expect(images.map(({ image, file }) => [file.slice(root.length + 1), image])).toEqual([
      ['a.json', 'quay.io/x/json:1'],
      ['b/deep/er.YAML', 'quay.io/x/deep:1'],
      ['c.yaml', 'quay.io/x/z:1'],
      ['z.yml', 'quay.io/x/z:1'],
    ]);
    expect(notes).toEqual([
      expect.stringMatching(/c\.yaml:\d+: the map has this key already; /),
      expect.stringMatching(/z\.yml:\d+: the map has this key already; /),
    ]);
  });

  it('says when there is none, no folder, a dangling link, or a file that is too large', async () => {
    const why = async (text: string) =>
      expect(readManifests(root, signal)).rejects.toMatchObject({
        code: 'bundle/source',
        message: expect.stringContaining(text),
      });
    await why(`there is no *.yaml, *.yml or *.json in ${root}`);
    symlinkSync('nowhere', join(root, 'a.yaml'));
    await why("a.yaml can't be read");
    rmSync(join(root, 'a.yaml'));
    put('a.yaml', '');
    truncateSync(join(root, 'a.yaml'), 16 * 1024 * 1024 + 1);
    await why('16777217 bytes');
    rmSync(root, { recursive: true });
    await why("can't be read");
  });
});
