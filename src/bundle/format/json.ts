import * as v from 'valibot';
import { reasonOf } from '../../platform/app-error.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { type BundleErrorCode, bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { jsonExcess } from './json-structure.ts';

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
