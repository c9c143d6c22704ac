import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  imagesIn,
  parseManifestDocuments,
  parseManifests,
  repeatedKeyNotes,
} from '../../../../src/bundle/documents/kubernetes-manifest.ts';
import { AppError } from '../../../../src/platform/app-error.ts';

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

  it('takes the last value of a key that is repeated, and tells where', () => {
    const twice = `kind: Pod\nspec:\n  containers:\n  - image: quay.io/x/a:1\n    image: quay.io/x/b:1\n`;
    const documents = parseManifestDocuments(`${pod('c')}---\n${twice}---\n{"kind":"Pod",\n"kind":"Job"}\n`, 'f.yaml');
    expect(imagesIn(documents, 'f.yaml').map(({ image }) => image)).toEqual(['quay.io/x/c:1', 'quay.io/x/b:1']);
    expect(documents.at(-1)?.value).toEqual({ kind: 'Job' });
    expect(repeatedKeyNotes(documents, 'f.yaml')).toEqual([
      'f.yaml:11: the map has this key already (the first of 2 such keys in the file); the last value is taken, as by kubectl and helm',
    ]);
    expect(repeatedKeyNotes(parseManifestDocuments(pod('c'), 'f.yaml'), 'f.yaml')).toEqual([]);
  });

  it('reads quoted texts as kubectl does: their further lines may be indented less', () => {
    const long = [
      'kind: Pod',
      'metadata:',
      '  annotations:',
      '    a: "first \\"',
      '  second',
      '',
      '\tthird',
      'fourth"',
      "    b: 'it''s",
      "  more'",
      '    flow: {c: "x',
      'y"}',
      '    list:',
      '    - "one',
      'two"',
      'spec:',
      "  containers: [{name: c, image: 'quay.io/x/a:1'}]",
      '',
    ].join('\n');
    const [document, next] = parseManifestDocuments(`${long}---\n${pod('b')}`, 'f.yaml');
    expect(document?.value).toMatchObject({
      metadata: {
        annotations: {
          a: 'first " second\nthird fourth',
          b: "it's more",
          flow: { c: 'x y' },
          list: ['one two'],
        },
      },
    });
    expect(next).toMatchObject({ number: 2, line: 18 });
    expect(imagesOf(long)).toEqual(['quay.io/x/a:1']);
    const open = `a:\n  b: "x\n---\n${pod('b')}c: "y"\n`;
    expect(() => parseManifests(open, 'f.yaml')).toThrow(/f\.yaml:2: is not YAML: Missing closing/);
  });

  it('reads flow values as kubectl does: their further lines may be indented less', () => {
    const flow = [
      'kind: Pod',
      'metadata: {name: a, annotations: {b: plain',
      'text, c: "x',
      'y"',
      '}}',
      'spec:',
      '  containers: [{name: c,',
      "image: 'quay.io/x/a:1'}, {",
      "name: it's # no ] } here",
      "\t, image: 'quay.io/x/b:1'}",
      ']',
      'list:',
      '- [x,',
      'y]',
      '- {z: 1}',
      '',
    ].join('\n');
    const [document, next] = parseManifestDocuments(`${flow}---\n${pod('b')}`, 'f.yaml');
    expect(document?.value).toMatchObject({
      metadata: { annotations: { b: 'plain text', c: 'x y' } },
      list: [['x', 'y'], { z: 1 }],
    });
    expect(next).toMatchObject({ number: 2, line: 16 });
    expect(imagesOf(flow)).toEqual(['quay.io/x/a:1', 'quay.io/x/b:1']);
    expect(() => parseManifests(`a:\n  b: [x,\n---\n${pod('b')}c: ]\n`, 'f.yaml')).toThrow(/f\.yaml:[23]: is not YAML/);
  });

  it('reads thousands of such values in one file, and gives up where indenting would fill the memory', () => {
    const several = ['"a\nb"', "'a\nb'", '[a,\nb]', '|\n   "a\n   [b'];
    const text = Array.from({ length: 8_000 }, (_, at) => `k${at}:\n  - ${several[at % several.length]}\n`).join('');
    const values = Object.values(parseManifestDocuments(text, 'f.yaml')[0]?.value as object);
    expect(values.slice(0, 4)).toEqual([['a b'], ['a b'], [['a', 'b']], ['"a\n[b\n']]);
    expect(values.slice(-4)).toEqual(values.slice(0, 4));
    expect(values).toHaveLength(8_000);
    const deep = `${' '.repeat(60_000)}k: "${'a\n'.repeat(60_000)}"\n`;
    expect(() => parseManifests(deep, 'f.yaml')).toThrow(/f\.yaml:1: is not YAML/);
    const open = Array.from({ length: 8_000 }, (_, at) => `k${at}: [1,\n`).join('');
    expect(() => parseManifests(open, 'f.yaml')).toThrow(/f\.yaml:2: is not YAML/);
  });

  it('reads JSON objects one after the other', () => {
    const json = (name: string) =>
      JSON.stringify({ kind: 'Pod', spec: { containers: [{ image: `quay.io/x/${name}}{:1` }] } }, undefined, 2);
    const text = `\n${json('a')}\n${json('b')}\n  ${json('c')}\n---\n${json('d')}\n`;
    expect(imagesOf(text)).toEqual(['a', 'b', 'c', 'd'].map((name) => `quay.io/x/${name}}{:1`));
    expect(parseManifestDocuments(text, 'f').map(({ line }) => line)).toEqual([2, 12, 22, 32]);
    expect(() => parseManifests(`${json('a')}\n{"a": `, 'f')).toThrow(/^f:1[01]: is not YAML/);
    expect(
      imagesOf(
        '{"spec":{"containers":[{"image":"quay.io/x/a:1"}]}}{"spec":{"containers":[{"image":"quay.io/x/b:1"}]}}',
      ),
    ).toEqual(['quay.io/x/a:1', 'quay.io/x/b:1']);
    expect(() => parseManifests('{"kind": "Pod"}\n[1]\n', 'f')).toThrow(/^f:2: is not YAML/);
  });

  it.each([
    ['an open map', 'a: {', 'is not YAML'],
    ['a tab', 'a:\n\t- b', 'Tabs are not allowed'],
    ['an alias of nothing', 'a: *nowhere', 'nowhere'],
    ['a template', '{{- if .Values.on }}\na: 1\n{{- end }}', "it is a template of a chart: give what 'helm template"],
    ['very deep text', '['.repeat(50_000), 'is not YAML'],
    [
      'a bomb',
      `a: &a [1]\n${Array.from({ length: 9 }, (_, at) => `b${at}: &b${at} [${`*${at === 0 ? 'a' : `b${at - 1}`},`.repeat(9)}]`).join('\n')}`,
      'alias',
    ],
  ])('names the line of %s', (_name, text, why) => {
    const act = () => parseManifests(`${pod('good')}---\n${text}\n`, 'dir/f.yaml');
    expect(act).toThrow(expect.objectContaining({ code: 'bundle/source' }));
    expect(act).toThrow(/^dir\/f\.yaml:(?:[6-9]|1[0-9]): is not YAML: /);
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
