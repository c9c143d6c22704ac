import { type Command, InvalidArgumentError, type Option } from 'commander';
import type { ApiClient } from '../../api/client.ts';
import type { SettingsSources } from '../../config/load-settings.ts';
import type { CommandOutput } from '../output/text.ts';
import type { CommandAdapters } from './command-adapters.ts';
import type { Confirm, ReadSecret } from './confirm.ts';

export interface CommandContext extends CommandOutput {
  /** Aborts on SIGINT, SIGTERM and SIGHUP. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The bytes of stdin; they end with an error when `signal` aborts. Call it once. */
  readonly stdin: () => AsyncIterable<Uint8Array>;
  /** Default false. */
  readonly isRoot?: boolean;
  /** It is absent when stdin or stderr is not a terminal, so that nobody can answer. */
  readonly confirm?: Confirm;
  /** It is absent when there is no terminal. */
  readonly readSecret?: ReadSecret;
  /**
   * Calls `listener` with the new width of the terminal of stdout, until `signal` aborts. It is
   * absent when stdout is not a terminal.
   */
  readonly onResize?: (listener: (columns: number) => void, signal: AbortSignal) => void;
  readonly settingsSources: SettingsSources;
  /** Connects to the daemon. @throws AppError `api/unreachable` */
  readonly connect: (signal: AbortSignal) => Promise<ApiClient>;
  /** Loads adapters that only few commands need. */
  readonly adapters: () => Promise<CommandAdapters>;
}

/** Collects all faults of the flags of a call: Commander stops at the first one. */
export class UsageFaults {
  private readonly wrongValues = new Map<Option, string[]>();
  private readonly needed = new Map<Option, string | undefined>();
  private readonly excluded = new Set<Command>();
  private place: string | undefined;

  /** What `read` refuses is said of `place` and not of its option. */
  within<T>(place: string, read: () => T): T {
    this.place = place;
    try {
      return read();
    } finally {
      this.place = undefined;
    }
  }

  /** Makes an option required, unless the option with the attribute `other` is given. */
  unless(other: string, option: Option): Option {
    this.needed.set(option, other);
    return option;
  }

  /** The action of this command calls {@link of} itself, to report more faults with them. */
  leaveTo(command: Command): void {
    this.excluded.add(command);
  }

  /** Collects the faults of `command` and of all its subcommands. Call it once. */
  collect(command: Command): void {
    for (const option of command.options) {
      if (option.mandatory) this.needed.set(option, undefined);
      option.mandatory = false;
      const { parseArg } = option;
      if (parseArg === undefined) continue;
      const parse: typeof parseArg = (value, previous) => {
        try {
          return parseArg.call(option, value, previous) as typeof previous;
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
          const what = this.place === undefined ? `option '${option.flags}' argument` : `${this.place}:`;
          const fault = `${what} '${value}' is invalid. ${error.message}`;
          this.wrongValues.set(option, [...(this.wrongValues.get(option) ?? []), fault.replace(/\.$/, '')]);
          return previous;
        }
      };
      option.parseArg = Object.assign(parse, parseArg);
    }
    if (command.commands.length === 0) {
      command.hook('preAction', () => {
        // Commander makes an empty text, or true, of a value that could not be read.
        for (const option of command.options.filter((one) => this.isWrong(one))) {
          const name = option.attributeName();
          if (['', true].includes(command.getOptionValue(name))) command.setOptionValue(name, undefined);
        }
        if (!this.excluded.has(command) && this.of(command).length > 0) command.error('');
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

  hasWrong(command: Command): boolean {
    return command.options.some((option) => this.isWrong(option));
  }

  private isWrong(option: Option): boolean {
    return this.wrongValues.has(option);
  }
}
