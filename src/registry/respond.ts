import type { ServerResponse } from 'node:http';

/** Error codes of the OCI distribution-spec 1.1, "Error Codes", as far as a pull can meet them. */
export type RegistryErrorCode =
  | 'BLOB_UNKNOWN'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_UNKNOWN'
  | 'DENIED'
  | 'UNSUPPORTED'
  | 'UNAVAILABLE';

/** Answers with an error body of the specification. */
export function respondError(response: ServerResponse, status: number, code: RegistryErrorCode, message: string): void {
  const body = JSON.stringify({ errors: [{ code, message }] });
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
}
