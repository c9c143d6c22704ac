import { Readable } from 'node:stream';
import type { Command } from 'commander';
import { buildProgram } from './program.ts';

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
