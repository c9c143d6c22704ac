import type { Command, Option } from 'commander';

/** An option of a command, as a shell completes it. */
export interface CompletedOption {
  /** `--json`, or both `-y` and `--yes`. */
  readonly flags: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  /** The values that it takes; empty for any, which may be the name of a file. */
  readonly choices: readonly string[];
}

/** A command, or the program itself. */
export interface CompletedCommand {
  /** The words behind `stickpin`; empty for the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  /** Commands below it. */
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
}

const HELP: CompletedOption = {
  flags: ['-h', '--help'],
  description: 'display help for command',
  takesValue: false,
  choices: [],
};

/** The program and every command below it, each after the one that it belongs to. */
export function completedCommands(program: Command, path: readonly string[] = []): readonly CompletedCommand[] {
  const command: CompletedCommand = {
    path,
    description: program.description(),
    commands: program.commands.map((one) => ({ name: one.name(), description: one.description() })),
    options: [...program.options.map(completedOption), HELP],
  };
  return [command, ...program.commands.flatMap((one) => completedCommands(one, [...path, one.name()]))];
}

function completedOption(option: Option): CompletedOption {
  const { short, long, description, argChoices, required, optional } = option;
  return {
    flags: [short, long].filter((flag) => flag != null),
    description,
    // The value of an optional one is given with `=`.
    takesValue: required && !optional,
    choices: argChoices ?? [],
  };
}

/** The commands below the program as patterns of a `case`, which bash and zsh have alike. */
export function commandPatterns(commands: readonly CompletedCommand[]): string {
  return commands
    .filter(({ path }) => path.length > 0)
    .map((command) => shellQuoted(pathOf(command)))
    .join(' | ');
}

/**
 * The branches of a `case` over a command and the word before the cursor, which bash and zsh have
 * alike: for each option with a value what completes that. `reply`: the command of the shell for
 * these choices, which may be none.
 */
export function valueBranches(
  commands: readonly CompletedCommand[],
  reply: (choices: readonly string[]) => string,
): string {
  const lines = commands.flatMap((command) =>
    command.options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => shellQuoted(`${pathOf(command)} ${flag}`)).join(' | ');
        return `    ${patterns}) ${reply(choices)}; return ;;`;
      }),
  );
  return lines.join('\n');
}

/** `text` as one word of a POSIX shell. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** How scripts name a command: `bundle create`; empty for the program itself. */
export function pathOf({ path }: CompletedCommand): string {
  return path.join(' ');
}
