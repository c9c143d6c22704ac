import { AppError } from '../../platform/app-error.ts';

/** Exit codes of every command. */
export const exitCodes = { done: 0, failed: 1, usage: 2, unreachable: 3, unverified: 4, denied: 5 } as const;

/**
 * The code of an error that ends a command, `failed` when it has no better one. The error's message
 * is its one line on stderr.
 */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof AppError)) return exitCodes.failed;
  switch (error.code) {
    case 'bundle/option':
    case 'domain/reference':
      return exitCodes.usage;
    case 'api/unreachable':
    case 'fleet/unreachable':
      return exitCodes.unreachable;
    case 'api/denied':
    case 'fleet/denied':
      return exitCodes.denied;
    case 'cli/unverified':
      return exitCodes.unverified;
    default:
      return exitCodes.failed;
  }
}
