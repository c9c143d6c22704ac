import { AppError, reasonOf } from '../../platform/app-error.ts';
import { diskFaultMessage, diskFaultOf } from '../../platform/files/disk-fault.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { PullErrorCode } from '../../ports/runtime.ts';
import { classifyPullError, PULL_ADVICE, PULL_DISPOSITIONS } from './pull-error.ts';

/**
 * Codes of all errors of this room: the reasons of a failed pull; `runtime/config` (`wait`), the
 * runtime's configuration prevents an action, and the message says what to change; `runtime/write`
 * (`wait`), a file of ours could not be written.
 */
export type RuntimeErrorCode = PullErrorCode | 'runtime/config' | 'runtime/write';

/** An error with this code about `what`. The code determines disposition and advice. */
export function pullError(code: PullErrorCode, what: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code, message: `${what}. ${PULL_ADVICE[code]}`, disposition: PULL_DISPOSITIONS[code], cause });
}

/**
 * The configuration of the runtime prevents an action. `message` names the file and what to change.
 */
export function configError(message: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code: 'runtime/config', message, disposition: 'wait', cause });
}

/** Our file at `path` could not be written. A full disk is `runtime/no-space`. */
export function writeError(path: string, cause: unknown): AppError<RuntimeErrorCode> {
  const fault = diskFaultOf(cause);
  if (fault === 'full' || fault === 'quota') {
    return new AppError({
      code: 'runtime/no-space',
      message: diskFaultMessage(path, fault),
      disposition: 'wait',
      cause,
    });
  }
  const reason = reasonOf(cause);
  // Paths that the sandbox of the service protects appear as read-only too.
  const what = fault === undefined ? `${path} could not be written: ${reason}` : diskFaultMessage(path, fault);
  return new AppError({
    code: 'runtime/write',
    message: `${what}. See whether the service may write there (ReadWritePaths=); a folder made after its start needs 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}

/**
 * Converts `thrown` to an {@link AppError}. An AppError stays; an abort becomes
 * `runtime/cancelled`; a gRPC status is classified.
 */
export function toRuntimeError(thrown: unknown, what: string, signal: AbortSignal): AppError {
  if (signal.aborted) return pullError('runtime/cancelled', `${what} was cancelled`, thrown);
  if (thrown instanceof AppError) return thrown;
  const status = grpcStatusOf(thrown);
  if (status === undefined) return pullError('runtime/pull-failed', `${what} failed: ${reasonOf(thrown)}`, thrown);
  return pullError(classifyPullError(status), `${what} failed: ${status.text}`, thrown);
}

/** The status code of an error of grpc-js. Undefined for any other error. */
export function grpcCodeOf(thrown: unknown): number | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number' ? thrown.code : undefined;
}

function grpcStatusOf(thrown: unknown): { grpcCode: number; text: string } | undefined {
  const grpcCode = grpcCodeOf(thrown);
  if (!(thrown instanceof Error) || grpcCode === undefined) return undefined;
  const details = 'details' in thrown && typeof thrown.details === 'string' ? thrown.details : thrown.message;
  return { grpcCode, text: oneLine(details) };
}
