import type { ApiClient } from '../../api/client.ts';
import { AppError } from '../../platform/app-error.ts';
import type { StoredReport, StoredState } from './command-adapters.ts';
import type { CommandContext } from './command-context.ts';
import { withDaemon } from './daemon-client.ts';

/**
 * Runs `live` with the daemon. While none answers, it runs `stored` with what the daemon wrote
 * last, and then fails as without it, so that the exit code tells that the daemon is down. The line
 * on stderr says what was shown.
 *
 * @param stored resolves to the words for what it showed, or undefined when there was nothing
 * @throws AppError `api/unreachable`; errors of `live` and `stored`
 */
export async function withDaemonOrStored(
  context: CommandContext,
  live: (client: ApiClient) => Promise<void>,
  stored: (state: StoredState) => Promise<string | undefined>,
): Promise<void> {
  try {
    await withDaemon(context, live);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'api/unreachable') throw error;
    const { storedState } = await context.adapters();
    const shown = await stored(storedState).catch((reason: unknown) => {
      throw withoutDaemon(error, reason);
    });
    if (shown === undefined) throw error;
    const { code, disposition, message } = error;
    throw new AppError({ code, disposition, message: `${message}. Shown is ${shown}`, cause: error });
  }
}

/** As without what can't be read, which is named. */
function withoutDaemon({ code, disposition }: AppError, reason: unknown): unknown {
  if (!(reason instanceof AppError) || reason.code !== 'cli/no-state') return reason;
  return new AppError({
    code,
    disposition,
    message: `the stickpin daemon does not run, and ${reason.message}`,
    cause: reason,
  });
}

/**
 * How old a stored report is: `what it wrote on 2026-09-01T08:14:05.112Z, before the last boot`.
 */
export function whenStored({ writtenAt, isFromBefore }: StoredReport): string {
  return `what it wrote on ${writtenAt}${isFromBefore ? ', before the last boot' : ''}`;
}
