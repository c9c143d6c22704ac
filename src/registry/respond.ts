import type { ServerResponse } from 'node:http';

/** Error codes of the OCI distribution-spec 1.1, "Error Codes", as far as a pull can meet them. */
export type RegistryErrorCode =
  | 'BLOB_UNKNOWN'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_INVALID'
  | 'NAME_UNKNOWN'
  | 'DIGEST_INVALID'
  | 'DENIED'
  | 'TOOMANYREQUESTS'
  | 'UNSUPPORTED';

/** One error of the specification; `detail` is what was asked for. */
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
