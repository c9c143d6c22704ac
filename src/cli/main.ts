/** Entry of the command line: `stickpin`. */
import { runProgram } from './program.ts';

const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());

process.exitCode = await runProgram(process.argv.slice(2), {
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  isTerminal: process.stdout.isTTY === true,
  signal: stop.signal,
  now: () => Date.now(),
  env: process.env,
});
