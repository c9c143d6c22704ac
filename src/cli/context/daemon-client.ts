import { type ApiClient, isNotRunning } from '../../api/client.ts';
import { loadSettings } from '../../config/load-settings.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { StoredReport, StoredState } from './command-adapters.ts';
import type { CommandContext } from './command-context.ts';

export const CORRECT_SETTINGS =
  "Correct that, check it with 'stickpin config check', then run 'systemctl restart stickpin'";

/** The connection is closed afterwards. @throws AppError `api/unreachable` */
export async function withDaemon<T>(context: CommandContext, use: (client: ApiClient) => Promise<T>): Promise<T> {
  try {
    const client = await context.connect(context.signal);
    try {
      return await use(client);
    } finally {
      client.close();
    }
  } catch (error) {
    if (!isNotRunning(error)) throw error;
    throw (await refusedSettings(context)) ?? error;
  }
}

/** Returns undefined when the settings are right. */
async function refusedSettings({ settingsSources, signal }: CommandContext): Promise<AppError | undefined> {
  try {
    await loadSettings(settingsSources, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    // This user may not read them, which says nothing about the daemon.
    if (['EACCES', 'EPERM'].includes(systemCodeOf(error) ?? '')) return undefined;
    return new AppError({
      code: 'api/unreachable',
      message: `The stickpin daemon is not running, and its settings are refused: ${reasonOf(error)}. ${CORRECT_SETTINGS}`,
      disposition: 'wait',
      cause: error,
    });
  }
}

/**
 * Runs `live` with the daemon. If no daemon answers, runs `stored` with what it wrote last, then
 * fails with the same error as without it: the exit code shows that the daemon is down, and stderr
 * names what was shown.
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
      if (!(reason instanceof AppError) || reason.code !== 'cli/no-state') throw reason;
      const { code, disposition } = error;
      const message = `the stickpin daemon does not run, and ${reason.message}`;
      throw new AppError({ code, disposition, message, cause: reason });
    });
    if (shown === undefined) throw error;
    throw error.reworded(`${error.message}. Shown is ${shown}`);
  }
}

/** `what it wrote on 2026-09-01T08:14:05.112Z, before the last boot`. */
export function whenStored({ writtenAt, isFromBefore }: StoredReport): string {
  return `what it wrote on ${writtenAt}${isFromBefore ? ', before the last boot' : ''}`;
}
