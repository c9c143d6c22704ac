import * as v from 'valibot';
import { reasonOf } from '../platform/app-error.ts';
import { type BundleErrorCode, bundleError } from './bundle-error.ts';

/**
 * Parses bytes as UTF-8 JSON and validates them.
 *
 * @param what names the document in the error: `contents.json`, `manifest sha256:…`.
 * @throws AppError `code` (`reject`) that names the document and the path of the first member that is wrong.
 */
export function parseJson<Schema extends v.GenericSchema>(
  bytes: Uint8Array,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
): v.InferOutput<Schema> {
  return validateJson(decodeJson(bytes, what, code), schema, what, code);
}

/** Parses bytes as UTF-8 JSON (RFC 8259, no byte order mark). @throws AppError `code` (`reject`) */
export function decodeJson(bytes: Uint8Array, what: string, code: BundleErrorCode): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw bundleError(code, `${what} is not JSON in UTF-8: ${reasonOf(cause)}`, { cause });
  }
}

/** Validates a parsed value. @throws AppError `code` (`reject`) that names the path of the first member that is wrong. */
export function validateJson<Schema extends v.GenericSchema>(
  value: unknown,
  schema: Schema,
  what: string,
  code: BundleErrorCode,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  const path = v.getDotPath(issue);
  throw bundleError(code, `${what}: ${path === null ? '' : `${path}: `}${issue.message}`);
}
