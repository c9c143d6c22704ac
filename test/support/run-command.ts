import { Readable } from 'node:stream';
import { type ApiClient, connectApi } from '../../src/api/client.ts';
import { commandAdapters } from '../../src/app/command-line/command-adapters.ts';
import type { CommandAdapters } from '../../src/cli/context/command-adapters.ts';
import type { CommandContext } from '../../src/cli/context/command-context.ts';
import { runProgram } from '../../src/cli/program.ts';
import type { SettingsSources } from '../../src/config/load-settings.ts';

/** What a command line printed and how it ended. */
export interface CommandRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs one command line of the whole program in this process, without a terminal unless `confirm`
 * answers. `args` come without the program's name; `adapters` are those of the program by default,
 * and the settings are the defaults;
 * `onOutput` is told all so far.
 */
export async function runCommand(
  args: readonly string[],
  options: {
    env?: CommandContext['env'];
    signal?: AbortSignal;
    adapters?: CommandAdapters;
    settings?: SettingsSources;
    confirm?: CommandContext['confirm'];
    now?: CommandContext['now'];
    stdin?: string | Buffer;
    /** The terminal of stdout; by default it is none. */
    terminal?: Pick<CommandContext, 'columns' | 'hasColour' | 'stderrColumns' | 'stderrHasColour'>;
    /** The daemon; by default the one that answers on the bus of `env`. */
    client?: Partial<ApiClient>;
    onOutput?: (stdout: string, stderr: string) => void;
  } = {},
): Promise<CommandRun> {
  let stdout = '';
  let stderr = '';
  const exitCode = await runProgram(args, {
    stdout: (text) => {
      stdout += text;
      options.onOutput?.(stdout, stderr);
    },
    stderr: (text) => {
      stderr += text;
      options.onOutput?.(stdout, stderr);
    },
    stdin: () => Readable.from([Buffer.from(options.stdin ?? '')]),
    isTerminal: options.terminal !== undefined,
    ...options.terminal,
    signal: options.signal ?? new AbortController().signal,
    now: options.now ?? (() => Date.parse('2026-03-04T05:06:07.890Z')),
    ...(options.confirm !== undefined && { confirm: options.confirm }),
    env: options.env ?? {},
    settingsSources: options.settings ?? { fragments: [] },
    connect: async (signal) =>
      options.client === undefined
        ? connectApi({ ...options.env }, signal)
        : ({ close: () => undefined, ...options.client } as ApiClient),
    adapters: async () => options.adapters ?? commandAdapters,
  });
  return { exitCode, stdout, stderr };
}
