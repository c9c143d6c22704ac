import { Command, CommanderError } from 'commander';
import type { CommandContext } from '../../src/cli/command-context.ts';
import { exitCodeOf, exitCodes } from '../../src/cli/exit-code.ts';
import { reasonOf } from '../../src/platform/app-error.ts';

/** What a command printed and how it ended. `error` is the message it failed with. */
export interface CommandRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly error?: string;
}

/** Runs one command in this process. `register` adds the command to a fresh program; `args` begin with its name. */
export async function runCommand(
  register: (program: Command, context: CommandContext) => void,
  args: readonly string[],
  options: { env?: CommandContext['env']; signal?: AbortSignal } = {},
): Promise<CommandRun> {
  let stdout = '';
  let stderr = '';
  const context: CommandContext = {
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    isTerminal: false,
    signal: options.signal ?? new AbortController().signal,
    now: () => Date.parse('2026-03-04T05:06:07.890Z'),
    env: options.env ?? {},
  };
  const program = new Command().exitOverride().configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
  register(program, context);
  try {
    await program.parseAsync(args, { from: 'user' });
    return { exitCode: exitCodes.done, stdout, stderr };
  } catch (error) {
    const exitCode = error instanceof CommanderError ? exitCodes.usage : exitCodeOf(error);
    return { exitCode, stdout, stderr, error: reasonOf(error) };
  }
}
