import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { definedProgram } from '../../../src/cli/manual.ts';
import type { Section } from '../../../src/domain/settings/sections.ts';
import { settingsTable } from '../../../src/domain/settings/settings.ts';
import { faultOf, flagsOf, leafCommands, shownCommands } from '../../support/docs/command-lines.ts';
import { readDoc, readDocs, readProductText } from '../../support/docs/doc-files.ts';

const docs = readDocs();
const product = readProductText();
const program = definedProgram();
const scripts = Object.keys(JSON.parse(readFileSync('package.json', 'utf8')).scripts);
const places = (path: string, faults: readonly { readonly line: number; readonly what: string }[]) =>
  faults.map(({ line, what }) => `${path}:${line}: ${what}`);

const settings = new Map(
  Object.entries<Section>(settingsTable).map(([section, { settings, isNamed }]) => [
    section,
    new Set(Object.keys(settings).map((key) => (isNamed ? `NAME.${key}` : key))),
  ]),
);

/** `crio.sock` and the like are files, not settings. */
const isFileName = (name: string) => /\.(conf|service|sock|slice|ts|md|toml|json|db)$/.test(name);

/** Members of `update` in a payload (bundle format 1), which is the name of a section too. */
const PAYLOAD_RULES = new Set(['from', 'barrier', 'deadend', 'rollout', 'endOfLife', 'order', 'base']);

function settingFault(text: string): string | undefined {
  const [, section = '', key = ''] = /^([a-z]+)\.((?:NAME\.)?[a-z_]+)(?: =.*)?$/.exec(text) ?? [];
  const keys = settings.get(section);
  if (section === 'update' && PAYLOAD_RULES.has(key)) return undefined;
  return keys === undefined || isFileName(`${section}.${key}`) || keys.has(key) ? undefined : `no setting ${text}`;
}

/** In the usage of a script, or among the options of `parseArgs`. */
function isFlagOf(source: string, flag: string): boolean {
  return new RegExp(`${flag}\\b|^\\s*'?${flag.slice(2)}'?: \\{`, 'm').test(source);
}

/** Up to the first part that stands for others, as in `releases/<name>/`. */
function fixedPart(path: string): string {
  const parts = path.split('/');
  const end = parts.findIndex((part) => /[*<>…{}$]|^[A-Z]+$/.test(part));
  return (end === -1 ? parts : parts.slice(0, end)).join('/').replace(/\/$/, '');
}

const repositoryPath = /^(?:src|docs|test|packaging|systemd|udev|proto|\.ci)\/[^\s]*$/;
const nodePath = /(?<![\w.:/>-])\/(?:run|etc|usr|var\/lib\/stickpin)\/[\w.<>*/@+-]+/g;

/**
 * A path of the node is written as it is, or put together from a folder and a name that both are.
 */
function isOfProduct(path: string): boolean {
  if (path === '' || product.includes(path)) return true;
  const name = path.slice(path.lastIndexOf('/') + 1);
  return product.includes(name) && isOfProduct(dirname(path) === '/' ? '' : dirname(path));
}

describe.each(docs.map((doc) => [doc.path, doc] as const))('%s', (path, doc) => {
  it('shows only commands and flags that exist', () => {
    const faults = shownCommands(doc.code).flatMap((shown) => {
      const what = faultOf(shown, program);
      return what === undefined ? [] : [{ line: shown.line, what: `stickpin ${shown.words.join(' ')}: ${what}` }];
    });
    expect(places(path, faults)).toEqual([]);
  });

  it('names only flags that a command of this repository has', () => {
    const known = new Set(leafCommands(program).flatMap(({ command }) => [...flagsOf(command)]));
    const others = [
      'packaging/node/install.sh',
      'packaging/node/setup',
      'packaging/node/uninstall',
      'packaging/package.mjs',
      'packaging/release.mjs',
      'test/support/crio-double/options.ts',
      'test/support/crio-double/main.ts',
      'test/fuzz/run.ts',
    ]
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const faults = doc.code.flatMap(({ line, text, isBlock }) => {
      const [, flag] = /^(--[a-z][a-z-]*)/.exec(text) ?? [];
      const exists = flag === undefined || isBlock || known.has(flag) || isFlagOf(others, flag);
      return exists ? [] : [{ line, what: `no flag ${flag}` }];
    });
    expect(places(path, faults)).toEqual([]);
  });

  it('names only settings that exist', () => {
    const faults = doc.code.flatMap(({ line, text }) => {
      const what = settingFault(text);
      return what === undefined ? [] : [{ line, what }];
    });
    expect(places(path, faults)).toEqual([]);
  });

  it('names only scripts of package.json', () => {
    const faults = doc.code.flatMap(({ line, text }) =>
      [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].flatMap(([, name = '']) =>
        scripts.includes(name) ? [] : [{ line, what: `no script ${name}` }],
      ),
    );
    expect(places(path, faults)).toEqual([]);
  });

  it('names only files and folders of the repository that exist', () => {
    const faults = doc.code.flatMap(({ line, text }) =>
      repositoryPath.test(text) && !existsSync(fixedPart(text)) ? [{ line, what: `no ${text}` }] : [],
    );
    expect(places(path, faults)).toEqual([]);
  });

  it('names only paths of a node that the product knows', () => {
    const faults = doc.code.flatMap(({ line, text }) =>
      [...text.matchAll(nodePath)].flatMap(([shown]) =>
        isOfProduct(fixedPart(shown.replace(/[.,]$/, ''))) ? [] : [{ line, what: `no ${shown}` }],
      ),
    );
    expect(places(path, faults)).toEqual([]);
  });

  it('links to files and headings that exist', () => {
    const faults = doc.links.flatMap(({ line, target }) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [file = '', anchor] = target.split('#', 2);
      const to = file === '' ? path : normalize(join(dirname(path), file));
      if (!existsSync(to)) return [{ line, what: `no ${target}` }];
      const isThere = anchor === undefined || readDoc(to).anchors.has(anchor);
      return isThere ? [] : [{ line, what: `no heading ${target}` }];
    });
    expect(places(path, faults)).toEqual([]);
  });

  it('has lines of at most 100 columns, outside tables and code', () => {
    const faults = doc.prose
      .filter(({ text }) => text.length > 100 && !/^\S*\]\(\S+$/.test(text) && !/`[^`]{70,}`/.test(text))
      .map(({ line, text }) => ({ line, what: `${text.length} columns` }));
    expect(places(path, faults)).toEqual([]);
  });
});

describe('README.md', () => {
  it('links to each page of docs', () => {
    const linked = new Set(readDoc('README.md').links.map(({ target }) => target));
    const pages = docs.map(({ path }) => path).filter((path) => /^docs\/[^/]+$/.test(path));
    expect(pages.length).toBeGreaterThan(10);
    expect(pages.filter((path) => !linked.has(path))).toEqual([]);
  });
});

describe('docs/cli.md', () => {
  const { text } = readDoc('docs/cli.md');
  const sections = new Map(
    text.split(/^#{2,4} /m).map((section) => {
      const [title = '', ...body] = section.split('\n');
      return [title.replaceAll('`', '').replace(/^stickpin /, ''), body.join('\n')];
    }),
  );

  it.each(leafCommands(program).map(({ path, command }) => [path, command] as const))(
    'describes stickpin %s with all its flags',
    (path, command) => {
      const section = sections.get(path);
      expect([...sections.keys()]).toContain(path);
      const flags = command.options.map(({ long }) => long ?? '');
      expect(flags.filter((flag) => !section?.includes(`\`${flag}`))).toEqual([]);
    },
  );
});
