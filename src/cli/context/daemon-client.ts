import type { ApiClient } from '../../api/client.ts';
import type { CommandContext } from './command-context.ts';

/**
 * Runs `use` with a connection to the daemon, which is closed afterwards. @throws AppError
 * `api/unreachable`
 */
export async function withDaemon<T>(context: CommandContext, use: (client: ApiClient) => Promise<T>): Promise<T> {
  const client = await context.connect(context.signal);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}
