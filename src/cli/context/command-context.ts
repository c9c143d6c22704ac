import type { ApiClient } from '../../api/client.ts';
import type { CommandOutput } from '../output/table.ts';
import type { CommandAdapters } from './command-adapters.ts';
import type { Confirm } from './confirm.ts';

/** What a command may use of its surroundings. */
export interface CommandContext extends CommandOutput {
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether the user is root; default false. */
  readonly isRoot?: boolean;
  /** Absent where nobody can be asked: stdin or stderr is no terminal. */
  readonly confirm?: Confirm;
  /** Connects to the daemon. @throws AppError `api/unreachable` */
  readonly connect: (signal: AbortSignal) => Promise<ApiClient>;
  /** Loads what few commands need and no other should wait for. */
  readonly adapters: () => Promise<CommandAdapters>;
}
