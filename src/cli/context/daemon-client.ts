import { type ApiClient, isNotRunning } from '../../api/client.ts';
import { loadSettings } from '../../config/load-settings.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { CommandContext } from './command-context.ts';

/** What to do while a daemon can't start with its settings. */
export const CORRECT_SETTINGS =
  "Correct that, check it with 'stickpin config check', then run 'systemctl restart stickpin'";

/**
 * Runs `use` with a connection to the daemon, which is closed afterwards. @throws AppError
 * `api/unreachable`
 */
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

/** That the daemon does not run with such settings; undefined while they are right. */
async function refusedSettings({ settingsSources, signal }: CommandContext): Promise<AppError | undefined> {
  try {
    await loadSettings(settingsSources, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return new AppError({
      code: 'api/unreachable',
      message: `The stickpin daemon is not running, and its settings are refused: ${reasonOf(error)}. ${CORRECT_SETTINGS}`,
      disposition: 'wait',
      cause: error,
    });
  }
}
