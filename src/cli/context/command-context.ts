import { type Command, InvalidArgumentError, type Option } from 'commander';
import type { ApiClient } from '../../api/client.ts';
import type { SettingsSources } from '../../config/load-settings.ts';
import { AppError } from '../../platform/app-error.ts';
import type { CommandOutput } from '../output/text.ts';
import type { CommandAdapters } from './command-adapters.ts';
import type { AskSecret, Confirm } from './confirm.ts';

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

/**
 * What is wrong with the flags of a call. Commander stops at the first fault; here they are
 * collected, so that a person learns of all of them at once.
 */
export class UsageFaults {
  private readonly wrongValues = new Map<Option, string[]>();
  private readonly needed = new Map<Option, string | undefined>();
  private readonly left = new Set<Command>();

  /** Makes an option required, unless the option with the attribute `other` is given. */
  unless(other: string, option: Option): Option {
    this.needed.set(option, other);
    return option;
  }

  /** The action of this command asks {@link of} itself, to report more faults with them. */
  leaveTo(command: Command): void {
    this.left.add(command);
  }

  /** Collects the faults of `command` and of all commands below it. To be called once. */
  collect(command: Command): void {
    for (const option of command.options) {
      if (option.mandatory) this.needed.set(option, undefined);
      option.mandatory = false;
      const { parseArg } = option;
      if (parseArg === undefined) continue;
      option.parseArg = (value, previous) => {
        try {
          return parseArg.call(option, value, previous) as typeof previous;
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
          const fault = `option '${option.flags}' argument '${value}' is invalid. ${error.message}`;
          this.wrongValues.set(option, [...(this.wrongValues.get(option) ?? []), fault.replace(/\.$/, '')]);
          return previous;
        }
      };
    }
    if (command.commands.length === 0) {
      command.hook('preAction', () => {
        // Commander makes an empty text, or true, of a value that could not be read.
        for (const option of command.options.filter((one) => this.isWrong(one))) {
          const name = option.attributeName();
          if (['', true].includes(command.getOptionValue(name))) command.setOptionValue(name, undefined);
        }
        if (!this.left.has(command) && this.of(command).length > 0) command.error('');
      });
    }
    for (const one of command.commands) this.collect(one);
  }

  /** Wrong values, then missing flags; each in the order of the flags in `--help`. */
  of(command: Command): readonly string[] {
    const missing = command.options.filter((option) => {
      const other = this.needed.get(option);
      const isNeeded = this.needed.has(option) && (other === undefined || command.getOptionValue(other) === undefined);
      return isNeeded && !this.isWrong(option) && command.getOptionValue(option.attributeName()) === undefined;
    });
    return [
      ...command.options.flatMap((option) => this.wrongValues.get(option) ?? []),
      ...missing.map(({ flags }) => `required option '${flags}' not specified`),
    ];
  }

  /** Whether a value was wrong, so that what the call asks for is not complete. */
  hasWrong(command: Command): boolean {
    return command.options.some((option) => this.isWrong(option));
  }

  private isWrong(option: Option): boolean {
    return this.wrongValues.has(option);
  }
}
