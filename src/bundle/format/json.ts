import * as v from 'valibot';
import { reasonOf } from '../../platform/app-error.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { type BundleErrorCode, bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';

/**
 * Most characters of a path or of a validator's message in an error: both quote the document, which
 * may have names of megabytes.
 */
const QUOTED_LENGTH = 300;

/**
 * Parses bytes as UTF-8 JSON and validates them.
 *
 * @param what names the document in the error: `contents.json`, `manifest sha256:…`.
 * @param maxItems as in {@link decodeJson}.
 * @throws AppError `code` (`reject`) that names the document and the path of the first member that
 *   is wrong.
 */
export function parseJson<Schema extends v.GenericSchema>(
  bytes: Uint8Array,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
  maxItems?: number,
): v.InferOutput<Schema> {
  return validateJson(decodeJson(bytes, what, code, maxItems), schema, what, code);
}

/**
 * Parses bytes as UTF-8 JSON (RFC 8259, no byte order mark).
 *
 * @param maxItems limit of members and elements; default {@link limits.documentItems}.
 * @throws AppError `code` (`reject`)
 */
export function decodeJson(
  bytes: Uint8Array,
  what: string,
  code: BundleErrorCode,
  maxItems: number = limits.documentItems,
): unknown {
  const excess = jsonExcess(bytes, { items: maxItems, depth: limits.jsonDepth });
  if (excess !== undefined) {
    throw bundleError(
      code,
      `${what} is too large to be read: it has ${excess}; make the bundle again, or spread its images over several bundles`,
    );
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw bundleError(code, `${what} is not JSON in UTF-8: ${reasonOf(cause)}`, { cause });
  }
}

/**
 * Validates a parsed value. @throws AppError `code` (`reject`) that names the path of the first
 * member that is wrong.
 */
export function validateJson<Schema extends v.GenericSchema>(
  value: unknown,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  throw bundleError(code, `${what}: ${memberFault(result.issues[0])}`);
}

/** The path of a member and what is wrong with it: `sequence: must be at least 1`. */
export function memberFault(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue);
  return `${path === null ? '' : `${quoted(path)}: `}${quoted(schemaFault(issue))}`;
}

function quoted(text: string): string {
  return text.length > QUOTED_LENGTH ? `${text.slice(0, QUOTED_LENGTH)}…` : text;
}

/** Limits for the structure of a JSON text. */
interface JsonLimits {
  /**
   * Most members and elements of all objects and arrays together, about; each object and array
   * counts as one more.
   */
  readonly items: number;
  /** Most objects and arrays within each other. */
  readonly depth: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Checks a text before it is parsed, in one pass without memory. A few megabytes of brackets would
 * need hundreds of megabytes when parsed. `JSON.parse()` can neither be interrupted nor limited: a
 * worker thread that exceeds its heap limit in it ends the whole process.
 *
 * @returns the limit that is exceeded, such as `more than 64 levels`, or undefined. For a text that
 *   is not JSON the result has no meaning.
 */
export function jsonExcess(bytes: Uint8Array, { items, depth }: JsonLimits): string | undefined {
  let found = 0;
  let level = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        level += 1;
        found += 1;
        if (level > depth) return `more than ${depth} levels of objects and arrays`;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        level -= 1;
        break;
      case COMMA:
      case COLON:
        found += 1;
        break;
    }
    if (found > items) return `more than ${items} items`;
  }
  return undefined;
}

/** The end of the string that begins at `at`: its closing quote, or the end of the text. */
function endOfString(bytes: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return end;
}
