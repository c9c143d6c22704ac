import { AppError } from '../../platform/app-error.ts';

type CliErrorCode =
  | 'cli/declined'
  | 'cli/faults'
  | 'cli/no-bundle'
  | 'cli/no-code'
  | 'cli/no-keys'
  | 'cli/no-node'
  | 'cli/no-space'
  | 'cli/rehearsal'
  | 'cli/report'
  | 'cli/timeout'
  | 'cli/no-way'
  | 'cli/unverified'
  | 'engine/ambiguous-bundle'
  | 'engine/no-bundle';

/** An {@link AppError} of this room. */
export function cliError(code: CliErrorCode, message: string, cause?: unknown): AppError<CliErrorCode> {
  const disposition = code === 'cli/no-space' || code === 'cli/timeout' ? 'wait' : 'reject';
  return new AppError({ code, message, disposition, cause });
}

export const exitCodes = { done: 0, failed: 1, usage: 2, unreachable: 3, unverified: 4, denied: 5, late: 6 } as const;

/** Ends a command that has printed everything. */
export class EndedWith extends Error {
  constructor(readonly exitCode: number) {
    super(`exit code ${exitCode}`);
  }
}

/** `failed` when the error has no better code. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof AppError)) return exitCodes.failed;
  switch (error.code) {
    case 'bundle/option':
    case 'domain/reference':
      return exitCodes.usage;
    case 'api/unreachable':
      return exitCodes.unreachable;
    case 'api/denied':
    case 'fleet/denied':
      return exitCodes.denied;
    case 'cli/timeout':
      return exitCodes.late;
    case 'cli/unverified':
      return exitCodes.unverified;
    default:
      return exitCodes.failed;
  }
}
