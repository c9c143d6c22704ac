/** A refusal, as the API server answers it: with a `Status` (meta/v1). */
export interface Refusal extends Error {
  readonly code: number;
  readonly body: object;
}

/** Makes a {@link Refusal}. */
export function refusal(code: number, reason: string, message: string, details: object = {}): Refusal {
  return Object.assign(new Error(message), { code, body: statusOf(code, reason, message, details) });
}

/** Whether an error is a {@link Refusal}. */
export function isRefusal(error: unknown): error is Refusal {
  return error instanceof Error && 'body' in error;
}

/** A `Status` with the outcome `Failure`. */
export function statusOf(code: number, reason: string, message: string, details: object = {}): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, details, code };
}

/** @throws Refusal 403, in the words of the authorizer and of admission plugins */
export function forbid(what: string, why: string): never {
  throw refusal(403, 'Forbidden', `${what} is forbidden: ${why}`);
}

/** @throws Refusal 422 */
export function invalid(what: string, field: string, why: string): never {
  throw refusal(422, 'Invalid', `${what} is invalid: ${field}: ${why}`, { causes: [{ field, message: why }] });
}
