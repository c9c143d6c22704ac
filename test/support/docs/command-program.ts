import { Readable } from 'node:stream';
import type { Command } from 'commander';
import { buildProgram } from '../../../src/cli/program.ts';

/** The command line as it is defined. Its commands can't be run. */
export function commandProgram(): Command {
  return buildProgram({
    stdout: () => undefined,
    stderr: () => undefined,
    stdin: () => Readable.from([]),
    isTerminal: false,
    signal: new AbortController().signal,
    now: () => 0,
    env: {},
    connect: () => Promise.reject(new Error('no command runs here')),
    adapters: () => Promise.reject(new Error('no command runs here')),
  });
}
