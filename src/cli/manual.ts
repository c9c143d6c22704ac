import { Readable } from 'node:stream';
import { type Command, Help } from 'commander';
import { exampleOf, optionDescription } from './examples.ts';
import { buildProgram } from './program.ts';

interface ManualCommand {
  /** The words behind `stickpin`: `bundle create`; empty for the program itself. */
  readonly path: string;
  /** Its heading in `stickpin --help`; empty for the program itself. */
  readonly group: string;
  /** `stickpin bundle verify [options] <bundle>`. */
  readonly usage: string;
  readonly description: string;
  readonly operands: readonly ManualTerm[];
  /** Its flags; those of the program itself with `--help`, which every command has. */
  readonly options: readonly ManualTerm[];
  /** A command line, in lines that a shell continues. The program itself has none. */
  readonly example?: string;
}

interface ManualTerm {
  readonly term: string;
  readonly description: string;
}

/** The program itself, and all commands that can be run, in the order of `stickpin --help`. */
export function manualCommands(program: Command): readonly ManualCommand[] {
  const below = program.commands.flatMap((command) => commandsFrom(command, [command.name()], command.helpGroup()));
  return [manualCommand(program, [], ''), ...below];
}

function commandsFrom(command: Command, words: readonly string[], group: string): readonly ManualCommand[] {
  if (command.commands.length === 0) return [manualCommand(command, words, group.replace(/:$/, ''))];
  return command.commands.flatMap((one) => commandsFrom(one, [...words, one.name()], group));
}

function manualCommand(command: Command, words: readonly string[], group: string): ManualCommand {
  const help = new Help();
  const path = words.join(' ');
  const example = exampleOf(path);
  return {
    path,
    group,
    usage: help.commandUsage(command),
    description: help.commandDescription(command),
    operands: help.visibleArguments(command).map((argument) => ({
      term: help.argumentTerm(argument),
      description: help.argumentDescription(argument),
    })),
    options: (words.length === 0 ? help.visibleOptions(command) : command.options).map((option) => ({
      term: help.optionTerm(option),
      description: optionDescription(option),
    })),
    ...(example !== undefined && { example }),
  };
}

/** The command line as it is defined, for what is made from it. Its commands can't be run. */
export function definedProgram(): Command {
  return buildProgram({
    stdout: () => undefined,
    stderr: () => undefined,
    stdin: () => Readable.from([]),
    isTerminal: false,
    signal: new AbortController().signal,
    now: () => 0,
    env: {},
    connect: () => Promise.reject(new Error('no command runs here')),
    settingsSources: { fragments: [] },
    adapters: () => Promise.reject(new Error('no command runs here')),
  });
}
