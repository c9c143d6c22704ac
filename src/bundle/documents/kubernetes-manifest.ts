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

/** YAML 1.2 with merge keys, or JSON. @throws AppError `bundle/source` as `FILE:LINE: why` */
export function parseManifestDocuments(text: string, file: string): ManifestDocument[] {
  const { documents, lines } = parseAsKubectl(text.replace(/^\ufeff/, ''));
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

/** Characters that are parsed again to read quoted texts as kubectl does. */
const MAX_PARSED_AGAIN = 64 * 1024 * 1024;

/**
 * YAML wants further lines of a quoted text deeper than its parent; kubectl, helm and the kubelet
 * don't, and leading blanks don't count. So they are added.
 */
function parseAsKubectl(text: string): ReturnType<typeof parse> {
  let parsed = parse(text);
  let indented = indentQuote(text, parsed.documents);
  for (let left = MAX_PARSED_AGAIN; indented !== undefined && left > 0; left -= text.length) {
    parsed = parse(indented);
    indented = indentQuote(indented, parsed.documents);
  }
  return parsed;
}

const QUOTED = /"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'/sy;

/** Indents the first quoted text that YAML cuts off. Undefined without one. */
function indentQuote(text: string, documents: ReturnType<typeof parse>['documents']): string | undefined {
  const document = documents.find(({ errors }) => errors.some(({ code }) => code !== REPEATED));
  if (document === undefined) return undefined;
  let indented: string | undefined;
  visit(document, {
    Scalar: (_key, { type, range }) => {
      if (!range || !type?.startsWith('QUOTE')) return undefined;
      QUOTED.lastIndex = range[0];
      const quoted = QUOTED.exec(text)?.[0];
      if (quoted === undefined || quoted.length <= range[1] - range[0]) return undefined;
      if (/^(?:---|\.\.\.)(?:\s|$)/m.test(quoted)) return visit.BREAK;
      const column = range[0] - text.lastIndexOf('\n', range[0]);
      const wide = quoted.replace(/\n[ \t]*/g, `\n${' '.repeat(column)}`);
      if (wide !== quoted) indented = text.slice(0, range[0]) + wide + text.slice(range[0] + quoted.length);
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
