import * as v from 'valibot';
import { reasonOf } from '../../platform/app-error.ts';
import { clip, quotedPath } from '../../platform/plain-text.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { type BundleErrorCode, bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { tooNew } from './unknown-members.ts';

/** Characters of the document in an error: its names may have megabytes. */
const QUOTED_LENGTH = 300;

/** `what` names the document. @throws AppError `code` with document and first wrong member */
export function parseJson<Schema extends v.GenericSchema>(
  bytes: Uint8Array,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
  maxItems?: number,
): v.InferOutput<Schema> {
  return validateJson(decodeJson(bytes, what, code, maxItems), schema, what, code);
}

/** RFC 8259, without a byte order mark. @throws AppError `code` */
export function decodeJson(
  bytes: Uint8Array,
  what: string,
  code: BundleErrorCode,
  maxItems: number = limits.documentItems,
): unknown {
  const excess = jsonExcess(bytes, { items: maxItems, depth: limits.jsonDepth });
  if (excess !== undefined) {
    const message = `${what} is too large to be read: it has ${excess}; make the bundle again, or spread its images over several bundles`;
    throw bundleError(code, message);
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw bundleError(code, `${what} is not JSON in UTF-8: ${reasonOf(cause)}`, { cause });
  }
}

/**
 * @param critical the list of the bundle. With one, an unknown member is of a later version
 * @throws AppError `code` (`reject`) that names the path of the first wrong member
 */
export function validateJson<Schema extends v.GenericSchema>(
  value: unknown,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
  critical?: unknown,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  const isUnknown = issue.type === 'strict_object' && issue.expected === 'never';
  if (isUnknown && Array.isArray(critical)) throw tooNew(`member ${pathOf(issue)} (${what})`);
  throw bundleError(code, `${what}: ${memberFault(issue)}`);
}

/** For example `sequence: must be at least 1`. */
export function memberFault(issue: v.BaseIssue<unknown>): string {
  const path = pathOf(issue);
  return `${path === '' ? '' : `${path}: `}${clip(schemaFault(issue), QUOTED_LENGTH)}`;
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue);
  return path === null ? '' : quotedPath(clip(path, QUOTED_LENGTH));
}

interface JsonLimits {
  /** Members and elements together, about; each object and array counts as one more. */
  readonly items: number;
  /** Objects and arrays within each other. */
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
 * Checks a text before it is parsed, in one pass without memory. `JSON.parse()` can be neither
 * interrupted nor limited: a few megabytes of brackets take hundreds, and a full heap of a worker
 * ends the whole process.
 *
 * @returns the exceeded limit, such as `more than 64 levels`; without meaning unless it is JSON
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

function endOfString(bytes: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return end;
}
