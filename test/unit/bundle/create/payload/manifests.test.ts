import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseManifests, readManifests } from '../../../../../src/bundle/create/payload/manifests.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';

const pod = (name: string, image = `quay.io/x/${name}:1`) =>
  `kind: Pod\nmetadata: {name: ${name}}\nspec:\n  containers:\n  - {name: c, image: '${image}'}\n`;
const imagesOf = (text: string) => parseManifests(text, 'f.yaml').map(({ image }) => image);

describe('parseManifests', () => {
  it('reads all documents of a file', () => {
    expect(parseManifests(`\ufeff# first\n---\n${pod('a')}---\n---\n${pod('b')}...\n`, 'f.yaml')).toEqual([
      { file: 'f.yaml', usedBy: 'Pod a, container c', image: 'quay.io/x/a:1' },
      { file: 'f.yaml', usedBy: 'Pod b, container c', image: 'quay.io/x/b:1' },
    ]);
    expect(imagesOf('')).toEqual([]);
  });

  it('reads JSON with tabs, and anchors with merge keys', () => {
    const json = JSON.stringify(
      { kind: 'Pod', spec: { containers: [{ name: 'c', image: 'quay.io/x/a:1' }] } },
      undefined,
      '\t',
    );
    expect(imagesOf(json)).toEqual(['quay.io/x/a:1']);
    expect(imagesOf('base: &base {name: c, image: quay.io/x/b:1}\nspec:\n  containers: [{<<: *base}]')).toEqual([
      'quay.io/x/b:1',
    ]);
  });

  it.each([
    ['an open map', 'a: {', 'is no YAML'],
    ['a tab', 'a:\n\t- b', 'Tabs are not allowed'],
    ['a key that comes twice', 'x: 1\nx: 2', 'unique'],
    ['an alias of nothing', 'a: *nowhere', 'nowhere'],
    ['a template', '{{- if .Values.on }}\na: 1\n{{- end }}', 'is no YAML'],
    ['very deep text', '['.repeat(50_000), 'is no YAML'],
    [
      'a bomb',
      `a: &a [1]\n${Array.from({ length: 9 }, (_, at) => `b${at}: &b${at} [${`*${at === 0 ? 'a' : `b${at - 1}`},`.repeat(9)}]`).join('\n')}`,
      'alias',
    ],
  ])('names the line of %s', (_name, text, why) => {
    const act = () => parseManifests(`${pod('good')}---\n${text}\n`, 'dir/f.yaml');
    expect(act).toThrow(expect.objectContaining({ code: 'bundle/source' }));
    expect(act).toThrow(/^dir\/f\.yaml:(?:[6-9]|1[0-9]): is no YAML: /);
    expect(act).toThrow(why);
  });

  it('throws nothing but AppError', () => {
    const parts = fc.array(
      fc.constantFrom(
        'a',
        ': ',
        '\n',
        '- ',
        '{',
        '}',
        '[',
        '&x ',
        '*x',
        '"',
        '<<',
        '---\n',
        '\t',
        '!t ',
        '|',
        '%',
        '\u0000',
      ),
    );
    fc.assert(
      fc.property(parts, (words) => {
        try {
          parseManifests(words.join(''), 'f');
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
        }
      }),
    );
  });
});

describe('readManifests', () => {
  const { signal } = new AbortController();
  let root: string;
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'stickpin-manifests-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('reads all folders in order, and no other files', async () => {
    put('z.yml', pod('z'));
    put('b/deep/er.YAML', pod('deep'));
    put('a.json', '{"spec": {"containers": [{"image": "quay.io/x/json:1"}]}}');
    for (const path of ['notes.txt', 'a.yaml.bak', '.git/x.yaml', '.hidden.yaml']) put(path, pod('not'));
    symlinkSync('z.yml', join(root, 'c.yaml'));
    symlinkSync('b', join(root, 'link.yaml-folder'));
    const found = await readManifests(root, signal);
    expect(found.map(({ image, file }) => [file.slice(root.length + 1), image])).toEqual([
      ['a.json', 'quay.io/x/json:1'],
      ['b/deep/er.YAML', 'quay.io/x/deep:1'],
      ['c.yaml', 'quay.io/x/z:1'],
      ['z.yml', 'quay.io/x/z:1'],
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
