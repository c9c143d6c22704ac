import type { ApiClient } from '../../api/client.ts';
import type { SettingsSources } from '../../config/load-settings.ts';
import type { CommandOutput } from '../output/table.ts';
import type { AskSecret } from './ask-secret.ts';
import type { CommandAdapters } from './command-adapters.ts';
import type { Confirm } from './confirm.ts';

/** The environment of a command. */
export interface CommandContext extends CommandOutput {
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The bytes of stdin; they end with an error when `signal` aborts. To be called once. */
  readonly stdin: () => AsyncIterable<Uint8Array>;
  /** Whether the user is root; default false. */
  readonly isRoot?: boolean;
  /** Absent when stdin or stderr is not a terminal, so that nobody can be asked. */
  readonly confirm?: Confirm;
  /** Absent when there is no terminal to ask at. */
  readonly askSecret?: AskSecret;
  /**
   * Calls `listener` with the new width of the terminal of stdout after each change of its size,
   * until `signal` aborts. Absent when stdout is not a terminal.
   */
  readonly onResize?: (listener: (columns: number) => void, signal: AbortSignal) => void;
  /** Where the settings of this node are. */
  readonly settingsSources: SettingsSources;
  /** Connects to the daemon. @throws AppError `api/unreachable` */
  readonly connect: (signal: AbortSignal) => Promise<ApiClient>;
  /** Loads adapters that only few commands need. */
  readonly adapters: () => Promise<CommandAdapters>;
}
