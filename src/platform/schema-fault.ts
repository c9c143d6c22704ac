import type { BaseIssue } from 'valibot';
import { reasonOf } from './app-error.ts';
import { quoted } from './plain-text.ts';

interface FaultWording {
  /** The word for a value with members; default `an object`. */
  readonly object?: string;
  /** The value is not shown. */
  readonly isSecret?: boolean;
}

/** Follows its place: `must be a list, and is "x"`, `is missing`. A message of the schema stays. */
export function schemaFault(issue: BaseIssue<unknown>, { object = 'an object', isSecret }: FaultWording = {}): string {
  if (!issue.message.startsWith('Invalid ')) return issue.message;
  if (issue.expected === 'never') return 'is not known';
  if (issue.received === 'undefined') return 'is missing';
  if (issue.type === 'non_empty') return 'must not be empty';
  const wanted = wantedOf(issue, object);
  if (isSecret) return wanted === undefined ? 'is not valid' : `must be ${wanted}`;
  return wanted === undefined ? `is not valid: ${issue.received}` : `must be ${wanted}, and is ${isOf(issue, object)}`;
}

/** Returns undefined for a type that has only a name in the library. */
function wantedOf({ type, expected }: BaseIssue<unknown>, object: string): string | undefined {
  if (type === 'integer') return 'a whole number';
  if (expected === null) return undefined;
  switch (type) {
    case 'min_value':
    case 'max_value':
    case 'min_length':
    case 'max_length':
      return `${expected.startsWith('>') ? 'at least' : 'at most'} ${expected.slice(2)}${type.endsWith('length') ? ' long' : ''}`;
    case 'regex':
      return `of the form ${expected}`;
    case 'starts_with':
      return `text that begins with ${expected}`;
    default:
      return oneOf(expected, object);
  }
}

/** The library writes `("a" number)` for one of several. */
function oneOf(expected: string, object: string): string {
  const kinds = expected.replaceAll(/[()]/g, '').split(' | ');
  const words = kinds.map((kind) => wordOf(kind, object));
  const last = words.pop() ?? expected;
  return words.length === 0 ? last : `${words.join(', ')} or ${last}`;
}

/** `a list`, `"x"`. */
export function valueWord(
  { input, received }: BaseIssue<unknown>,
  { object = 'an object' }: FaultWording = {},
): string {
  if (Array.isArray(input)) return 'a list';
  if (typeof input === 'string') return quoted(input);
  return typeof input === 'object' && input !== null ? object : received;
}

function isOf(issue: BaseIssue<unknown>, object: string): string {
  return issue.type.endsWith('_length') ? `${issue.received} long` : valueWord(issue, { object });
}

function wordOf(kind: string, object: string): string {
  switch (kind) {
    case 'string':
      return 'text';
    case 'number':
      return 'a number';
    case 'boolean':
      return 'true or false';
    case 'Array':
      return 'a list';
    case 'Object':
      return object;
    default:
      return kind;
  }
}

export interface TomlFault {
  /** Counts from 1. It is undefined when unknown. */
  readonly line: number | undefined;
  /** It omits the file's text, which may be secret: `line 2 can't be read from column 6 on`. */
  readonly reason: string;
}

/** The parser gives its place in two forms. */
interface Located {
  readonly location?: { readonly start?: Place };
  readonly line?: number;
  readonly column?: number;
}

interface Place {
  readonly line?: number;
  readonly column?: number;
}

/** Reads errors of {@link https://www.npmjs.com/package/toml toml}. */
export function tomlFault(error: unknown): TomlFault {
  const text = reasonOf(error).replace(/\.$/, '');
  const { line, column } = placeOf(error);
  const at = line === undefined ? 'it' : `line ${line}`;
  // The parser expects a list of characters of its grammar.
  const found = /^Expected .* but (.+) found$/s.exec(text)?.[1];
  if (found === undefined) return { line, reason: line === undefined ? text : `${at}: ${text}` };
  if (found === 'end of input') return { line, reason: `${at}: the file ends too early` };
  if (found === '"\\n"' || found === '"\\r"') return { line, reason: `${at} ends too early` };
  return { line, reason: `${at} can't be read from column ${column ?? 1} on` };
}

function placeOf(error: unknown): Place {
  if (typeof error !== 'object' || error === null) return {};
  const { location, line, column } = error as Located;
  return location?.start ?? { ...(line !== undefined && { line }), ...(column !== undefined && { column }) };
}
