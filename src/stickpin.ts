/** Entry of the command line: `stickpin`. */
import { createConfirm } from './cli/context/confirm.ts';
import { exitCodes } from './cli/context/exit-code.ts';
import { runProgram } from './cli/program.ts';
import { unsupportedNode } from './platform/node-version.ts';

const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Whoever reads on has what it wanted, as head(1).
  if (error.code !== 'EPIPE') process.stderr.write(`stickpin: the output can't be written: ${error.message}\n`);
  process.exit(exitCodes.failed);
});

const run = (): Promise<number> =>
  runProgram(process.argv.slice(2), {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    isTerminal: process.stdout.isTTY === true,
    ...(process.stderr.isTTY && { stderrColumns: process.stderr.columns || 80 }),
    ...(process.stdin.isTTY &&
      process.stderr.isTTY && { confirm: createConfirm({ input: process.stdin, output: process.stderr }) }),
    signal: stop.signal,
    isRoot: process.getuid?.() === 0,
    now: () => Date.now(),
    env: process.env,
    adapters: async () => (await import('./app/rehearsal/adapters.ts')).commandAdapters,
  });

const complaint = unsupportedNode(process.versions.node);
if (complaint !== undefined) process.stderr.write(`stickpin: ${complaint}\n`);
process.exitCode = complaint === undefined ? await run() : exitCodes.failed;
