import type { ServerResponse } from 'node:http';

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

/** Answers with a JSON body, by default `application/json`. */
export function respondJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}
