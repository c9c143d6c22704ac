import type { ServerResponse } from 'node:http';
import { respondJson } from '../platform/http/respond-json.ts';

/** The error codes of a pull (OCI distribution-spec 1.1, "Error Codes"). */
export type RegistryErrorCode =
  | 'BLOB_UNKNOWN'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_INVALID'
  | 'NAME_UNKNOWN'
  | 'DIGEST_INVALID'
  | 'DENIED'
  | 'TOOMANYREQUESTS'
  | 'UNSUPPORTED';

/** One error of the specification. `detail` names the requested item. */
export interface RegistryError {
  readonly code: RegistryErrorCode;
  readonly message: string;
  readonly detail?: Readonly<Record<string, string>>;
}

/** Answers with an error body of the specification. */
export function respondError(response: ServerResponse, status: number, error: RegistryError): void {
  respondJson(response, status, { errors: [error] });
}
