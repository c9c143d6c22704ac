import { LineCounter, parseAllDocuments, visit } from 'yaml';
import { type ManifestImage, podImagesIn } from '../../domain/release/manifest-images.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

const REPEATED = 'DUPLICATE_KEY';

export interface ManifestDocument {
  /** 1-based, by `---`. */
  readonly number: number;
  /** 1-based. */
  readonly line: number;
  /** Null for an empty document. The last value of a repeated key. */
  readonly value: unknown;
  /** 1-based lines with a key that its map already has. */
  readonly repeatedKeys: readonly number[];
}

/**
 * YAML 1.2 with merge keys, or JSON objects. @throws AppError `bundle/source` as `FILE:LINE: why`
 */
export function parseManifestDocuments(text: string, file: string): ManifestDocument[] {
  const { documents, lines } = parseAsKubectl(apart(text.replace(/^\ufeff/, '')));
  return documents.map((document, at) => {
    const { line } = lines.linePos(document.range[0]);
    const error = document.errors.find(({ code }) => code !== REPEATED);
    if (error !== undefined) throw malformed(file, lines.linePos(error.pos[0]).line, error.message);
    try {
      const repeated = document.errors.map(({ pos }) => lines.linePos(pos[0]).line);
      return { number: at + 1, line, value: document.toJS(), repeatedKeys: repeated };
    } catch (cause) {
      throw malformed(file, line, reasonOf(cause));
    }
  });
}

function parse(text: string) {
  const lines = new LineCounter();
  const options = { merge: true, logLevel: 'error', prettyErrors: false, lineCounter: lines } as const;
  return { documents: [...parseAllDocuments(text, options)], lines };
}

const BLANK = /\s*/y;

/** JSON objects one after the other, as `opm` writes them, become documents of YAML. */
function apart(text: string): string {
  const parts: string[] = [];
  let from = 0;
  let at = skipBlank(text, 0);
  while (text[at] === '{') {
    const end = at + (valueAt(text, at) ?? text.slice(at)).length;
    at = skipBlank(text, end);
    if (text[at] !== '{') break;
    const between = text.slice(end, text.lastIndexOf('\n', at) + 1);
    parts.push(text.slice(from, end) + (between || '\n'));
    from = at;
  }
  return [...parts, text.slice(from)].join('--- ');
}

function skipBlank(text: string, at: number): number {
  BLANK.lastIndex = at;
  return at + (BLANK.exec(text)?.[0].length ?? 0);
}

/** Characters that are parsed again to read values as kubectl does. */
const MAX_PARSED_AGAIN = 64 * 1024 * 1024;

/**
 * YAML wants further lines of quoted and flow values deeper than their parent; kubectl, helm and
 * the kubelet don't, and leading blanks don't count. So they are added.
 */
function parseAsKubectl(text: string): ReturnType<typeof parse> {
  let parsed = parse(text);
  let indented = indentCut(text, parsed.documents);
  for (let left = MAX_PARSED_AGAIN; indented !== undefined && left > 0; left -= text.length) {
    parsed = parse(indented);
    indented = indentCut(indented, parsed.documents);
  }
  return parsed;
}

/** Quoted texts and comments where a value may begin, and brackets. */
const TOKEN = /(?<![^\s[{,:])(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*(?:''[^']*)*'|#[^\n]*)|[[\]{}]/gs;

/** The quoted or flow value that begins here. Undefined when it is not closed. */
function valueAt(text: string, at: number): string | undefined {
  TOKEN.lastIndex = at;
  let depth = 0;
  for (let token = TOKEN.exec(text); token !== null; token = TOKEN.exec(text)) {
    if (depth === 0 && token.index > at) return undefined;
    if (token[0] === '[' || token[0] === '{') depth += 1;
    if (token[0] === ']' || token[0] === '}') depth -= 1;
    if (depth === 0) return text.slice(at, TOKEN.lastIndex);
  }
  return undefined;
}

/** Indents the first quoted or flow value that YAML cuts off. Undefined without one. */
function indentCut(text: string, documents: ReturnType<typeof parse>['documents']): string | undefined {
  const document = documents.find(({ errors }) => errors.some(({ code }) => code !== REPEATED));
  if (document === undefined) return undefined;
  let indented: string | undefined;
  visit(document, {
    Node: (_key, { range }) => {
      const [from, end] = range ?? [0, 0];
      if (!/["'[{]/.test(text[from] ?? '')) return undefined;
      const value = valueAt(text, from);
      if (value === undefined || value.length <= end - from) return undefined;
      if (/^(?:---|\.\.\.)(?:\s|$)/m.test(value)) return visit.BREAK;
      const column = from - text.lastIndexOf('\n', from);
      const wide = value.replace(/\n[ \t]*/g, `\n${' '.repeat(column)}`);
      if (wide !== value) indented = text.slice(0, from) + wide + text.slice(from + value.length);
      return visit.BREAK;
    },
  });
  return indented;
}

export function repeatedKeyNotes(documents: readonly ManifestDocument[], file: string): string[] {
  const [line, ...more] = documents.flatMap(({ repeatedKeys }) => repeatedKeys);
  if (line === undefined) return [];
  const others = more.length === 0 ? '' : ` (the first of ${more.length + 1} such keys in the file)`;
  return [`${file}:${line}: the map has this key already${others}; the last value is taken, as by kubectl and helm`];
}

export function parseManifests(text: string, file: string): ManifestImage[] {
  return imagesIn(parseManifestDocuments(text, file), file);
}

export function imagesIn(documents: readonly ManifestDocument[], file: string): ManifestImage[] {
  return documents.flatMap(({ value }) => podImagesIn(value).map((image) => ({ ...image, file })));
}

function malformed(file: string, line: number, why: string) {
  return bundleError('bundle/source', `${file}:${line}: is not YAML: ${why}`);
}
