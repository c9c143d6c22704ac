import type { CommandContext } from '../../src/cli/command-context.ts';
import { runProgram } from '../../src/cli/program.ts';

/** What a command line printed and how it ended. */
export interface CommandRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command line of the whole program in this process. `args` come without the program's name. */
export async function runCommand(
  args: readonly string[],
  options: { env?: CommandContext['env']; signal?: AbortSignal } = {},
): Promise<CommandRun> {
  let stdout = '';
  let stderr = '';
  const exitCode = await runProgram(args, {
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
  });
  return { exitCode, stdout, stderr };
}
