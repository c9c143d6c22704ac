import type { CommandAdapters } from './command-adapters.ts';
import type { CommandOutput } from './output.ts';

/** What a command may use of its surroundings. */
export interface CommandContext extends CommandOutput {
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Loads what few commands need and no other should wait for. */
  readonly adapters: () => Promise<CommandAdapters>;
}
