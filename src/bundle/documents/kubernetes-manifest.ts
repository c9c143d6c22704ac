import { CST, type Document, isScalar, Lexer, LineCounter, parseAllDocuments, visit } from 'yaml';
import { type ManifestImage, podImagesIn } from '../../domain/release/manifest-images.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

export interface ManifestDocument {
  /** 1-based, by `---`. */
  readonly number: number;
  /** 1-based. */
  readonly line: number;
  /** It is null for an empty document. The last value of a repeated key counts. */
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
    const [error] = document.errors;
    if (error !== undefined) throw malformed(text, file, lines.linePos(error.pos[0]).line, error.message);
    try {
      const repeatedKeys = repeatedKeysOf(document).map((offset) => lines.linePos(offset).line);
      return { number: at + 1, line, value: document.toJS(), repeatedKeys };
    } catch (cause) {
      throw malformed(text, file, line, reasonOf(cause));
    }
  });
}

function parse(text: string) {
  const lines = new LineCounter();
  // With unique keys, the parser would compare each key of a map with all others.
  const options = { merge: true, logLevel: 'error', prettyErrors: false, uniqueKeys: false } as const;
  return { documents: [...parseAllDocuments(text, { ...options, lineCounter: lines })], lines };
}

/** The result is sorted. */
function repeatedKeysOf(document: Document): number[] {
  const offsets: number[] = [];
  visit(document, {
    Map: (_key, { items }) => {
      const seen = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (seen.has(key.value)) offsets.push(key.range?.[0] ?? 0);
        seen.add(key.value);
      }
    },
  });
  return offsets.sort((a, b) => a - b);
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
    const between = text.slice(end, at);
    parts.push(text.slice(from, end) + (between.slice(0, between.lastIndexOf('\n') + 1) || '\n'));
    from = at;
  }
  return [...parts, text.slice(from)].join('--- ');
}

function skipBlank(text: string, at: number): number {
  BLANK.lastIndex = at;
  return at + (BLANK.exec(text)?.[0].length ?? 0);
}

/** Blanks that are added to read values as kubectl does. */
const MAX_ADDED = 16 * 1024 * 1024;
const HAS_DOCUMENT_MARK = /^(?:---|\.\.\.)(?:\s|$)/m;

/**
 * YAML requires a deeper indent for further lines of quoted and flow values; kubectl, helm and the
 * kubelet don't. Leading blanks of these lines have no meaning, so this adds blanks, in one pass.
 */
function parseAsKubectl(text: string): ReturnType<typeof parse> {
  const parsed = parse(text);
  const isWhole = parsed.documents.every(({ errors }) => errors.length === 0);
  const indented = isWhole ? text : indentCut(text);
  return indented === text ? parsed : parse(indented);
}

/** Quoted texts and comments where a value may begin, and brackets. */
const TOKEN = /(?<![^\s[{,:])(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*(?:''[^']*)*'|#[^\n]*)|[[\]{}]/gs;

/** The quoted or flow value that begins at `at`. Returns undefined when it is not closed. */
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

/** Indents each quoted or flow value that YAML cuts off. */
function indentCut(text: string): string {
  const parts: string[] = [];
  let from = 0;
  let remaining = MAX_ADDED;
  for (let at = nextCut(text, from); at !== undefined; at = nextCut(text, from)) {
    const value = valueAt(text, at);
    // Later values can't be found behind one that is not closed.
    if (value === undefined || HAS_DOCUMENT_MARK.test(value)) break;
    const line = text.slice(text.lastIndexOf('\n', at) + 1, at);
    const blanks = ' '.repeat((/^[ \t?-]*/.exec(line)?.[0].length ?? 0) + 1);
    const lines = value.split(/\n[ \t]*/);
    remaining -= lines.length * blanks.length;
    if (remaining < 0) break;
    parts.push(text.slice(from, at), lines.join(`\n${blanks}`));
    const end = text.indexOf('\n', at + value.length);
    from = end < 0 ? text.length : end + 1;
    parts.push(text.slice(at + value.length, from));
  }
  return parts.join('') + text.slice(from);
}

const WHOLE = /^(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*(?:''[^']*)*')$/s;

/** The position of the first quoted or flow value that YAML cuts off. `from` begins a line. */
function nextCut(text: string, from: number): number | undefined {
  let at = from;
  let flowAt = from;
  let depth = 0;
  let isPlain = false;
  for (const token of new Lexer().lex(text.slice(from))) {
    if (isPlain) {
      isPlain = false;
    } else if (token === CST.FLOW_END) {
      return flowAt;
    } else if (token === CST.SCALAR || token === CST.DOCUMENT) {
      isPlain = token === CST.SCALAR;
      continue;
    } else if (token === '[' || token === '{') {
      if (depth === 0) flowAt = at;
      depth += 1;
    } else if (token === ']' || token === '}') {
      depth = Math.max(0, depth - 1);
    } else if (/^["']/.test(token) && !WHOLE.test(token)) {
      return depth === 0 ? at : flowAt;
    }
    at += token.length;
  }
  return undefined;
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

/** Matches a chart that was not rendered. Variables of Kyverno have other names in the braces. */
const ACTION = /\{\{[^}\n]*\.(?:Values|Release|Chart)\b/;

/** Says what to do with the text of a chart that was not rendered. */
export function chartAdvice(text: string): string | undefined {
  return ACTION.test(text) ? "it is a template of a chart: give what 'helm template NAME CHART' prints" : undefined;
}

function malformed(text: string, file: string, line: number, why: string) {
  return bundleError('bundle/source', `${file}:${line}: is not YAML: ${chartAdvice(text) ?? why}`);
}
