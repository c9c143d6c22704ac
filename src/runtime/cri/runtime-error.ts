import { AppError } from '../../platform/app-error.ts';
import { diskFaultMessage, diskFaultOf } from '../../platform/files/disk-fault.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { PullErrorCode } from '../../ports/runtime.ts';
import { classifyPullError, PULL_ADVICE, PULL_DISPOSITIONS } from './pull-error.ts';

/**
 * Codes of every error that this room throws. Beside the reasons of a failed pull: `runtime/config`
 * (`wait`), the runtime's own configuration doesn't allow what is to be done and the message says
 * what to change; `runtime/write` (`wait`), a file of ours could not be written.
 */
export type RuntimeErrorCode = PullErrorCode | 'runtime/config' | 'runtime/write';

/** An error of kind `code` about `what`; disposition and advice follow from the code. */
export function pullError(code: PullErrorCode, what: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code, message: `${what}. ${PULL_ADVICE[code]}`, disposition: PULL_DISPOSITIONS[code], cause });
}

/**
 * The configuration of the runtime stands in the way; `message` names the file and what to change.
 */
export function configError(message: string, cause?: unknown): AppError<RuntimeErrorCode> {
  return new AppError({ code: 'runtime/config', message, disposition: 'wait', cause });
}

/** A file of ours could not be written at `path`. A full disk is `runtime/no-space`. */
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
  const reason = cause instanceof Error ? cause.message : String(cause);
  // The service's sandbox shows what it may not write as read-only, too.
  const what = fault === undefined ? `${path} could not be written: ${reason}` : diskFaultMessage(path, fault);
  return new AppError({
    code: 'runtime/write',
    message: `${what}. See whether the service may write there (ReadWritePaths=); a folder made after its start needs 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}

/**
 * `thrown` as an {@link AppError}: one already is; an abort becomes `runtime/cancelled`; a gRPC
 * status is classified.
 */
export function toRuntimeError(thrown: unknown, what: string, signal: AbortSignal): AppError {
  if (signal.aborted) return pullError('runtime/cancelled', `${what} was cancelled`, thrown);
  if (thrown instanceof AppError) return thrown;
  const status = grpcStatusOf(thrown);
  if (status === undefined) return pullError('runtime/pull-failed', `${what} failed: ${String(thrown)}`, thrown);
  return pullError(classifyPullError(status), `${what} failed: ${status.text}`, thrown);
}

function grpcStatusOf(thrown: unknown): { grpcCode: number; text: string } | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'number') return undefined;
  const details = 'details' in thrown && typeof thrown.details === 'string' ? thrown.details : thrown.message;
  return { grpcCode: thrown.code, text: oneLine(details) };
}
