import { closeSync, openSync } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { ReadStream, WriteStream } from 'node:tty';
import { connectApi } from '../../api/client.ts';
import { exitCodes } from '../../cli/context/cli-error.ts';
import { createConfirm, createReadSecret, type SecretTerminal } from '../../cli/context/confirm.ts';
import { wantsColour } from '../../cli/output/colour.ts';
import { runProgram } from '../../cli/program.ts';
import { NODE_SOURCES } from '../../config/load-settings.ts';
import { reasonOf } from '../../platform/app-error.ts';

/**
 * Runs the command line of this process, without the program's own name. Resolves to the exit code.
 */
export function runCommandLine(args: readonly string[]): Promise<number> {
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stop.abort());
  process.stdout.on('error', endOnBrokenOutput);
  return runProgram(args, {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    stdin: () => addAbortSignal(stop.signal, process.stdin),
    isTerminal: process.stdout.isTTY === true,
    ...(process.stdout.isTTY && {
      columns: process.stdout.columns || 80,
      hasColour: wantsColour(process.env),
      onResize,
    }),
    ...(process.stderr.isTTY && {
      stderrColumns: process.stderr.columns || 80,
      stderrHasColour: wantsColour(process.env),
    }),
    ...(process.stdin.isTTY && process.stderr.isTTY && { confirm: createConfirm(process.stdin, process.stderr) }),
    // Secrets are typed in a pipeline too, as in 'helm template … | stickpin bundle create …'.
    ...(hasControllingTerminal() && { readSecret: createReadSecret(openControllingTerminal) }),
    signal: stop.signal,
    isRoot: process.getuid?.() === 0,
    now: () => Date.now(),
    env: process.env,
    settingsSources: NODE_SOURCES,
    connect: (signal) => connectApi({ ...process.env }, signal),
    adapters: async () => (await import('./command-adapters.ts')).commandAdapters,
  });
}

function onResize(listener: (columns: number) => void, signal: AbortSignal): void {
  const resized = () => listener(process.stdout.columns || 80);
  process.stdout.on('resize', resized);
  signal.addEventListener('abort', () => process.stdout.off('resize', resized), { once: true });
}

/** Exits without an error when the reader closes early, for example head(1). */
function endOnBrokenOutput(error: NodeJS.ErrnoException): never {
  if (error.code !== 'EPIPE') process.stderr.write(`stickpin: the output can't be written: ${reasonOf(error)}\n`);
  process.exit(exitCodes.failed);
}

/** tty(4): the terminal of the process, wherever its standard streams lead. */
const TERMINAL = '/dev/tty';

/** Whether a person sits at a terminal, also where standard input is a pipe. */
function hasControllingTerminal(): boolean {
  try {
    closeSync(openSync(TERMINAL, 'r+'));
    return true;
  } catch {
    return false;
  }
}

/** Opens the terminal for one question. @throws Error of the system when there is none */
function openControllingTerminal(): SecretTerminal {
  const input = new ReadStream(openSync(TERMINAL, 'r+'));
  const output = new WriteStream(openSync(TERMINAL, 'r+'));
  return {
    input,
    output,
    interrupt: () => process.kill(process.pid, 'SIGINT'),
    close: () => {
      input.destroy();
      output.destroy();
    },
  };
}
