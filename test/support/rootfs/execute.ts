import { spawn } from 'node:child_process';

/**
 * How a program runs: its input, its environment (default: this process's) and when it is killed.
 */
export interface ExecuteOptions {
  readonly input?: string | Buffer;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Milliseconds until the program is killed; default ten minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * What a program left behind. `signal` is set instead of a meaningful `exitCode` (then -1) when it
 * was killed.
 */
export interface Outcome {
  readonly exitCode: number;
  readonly signal?: NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end, whatever its exit code. Rejects when it can't be started or the signal
 * aborts.
 */
async function executeAny(argv: readonly string[], options: ExecuteOptions = {}): Promise<Outcome> {
  const [file, ...args] = argv;
  if (file === undefined) throw new TypeError('executeAny() needs a program');
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 600_000);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]);
  const child = spawn(file, args, {
    signal,
    killSignal: 'SIGKILL',
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.env && { env: options.env }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.stdin.on('error', () => undefined); // a program may end without reading its input
  child.stdin.end(options.input);
  const ended = await new Promise<{ exitCode: number; signal?: NodeJS.Signals }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, killedBy) => {
      resolve(killedBy === null ? { exitCode: code ?? -1 } : { exitCode: -1, signal: killedBy });
    });
  });
  return { ...ended, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
}

/**
 * Runs a program that must succeed and returns its standard output.
 *
 * @throws Error with the command, how it ended and the tail of its standard error.
 */
export async function execute(argv: readonly string[], options: ExecuteOptions = {}): Promise<string> {
  const outcome = await executeAny(argv, options);
  if (outcome.exitCode === 0) return outcome.stdout;
  const ending = outcome.signal === undefined ? `exit code ${outcome.exitCode}` : `signal ${outcome.signal}`;
  throw new Error(`${argv.join(' ')}: ${ending}\n${outcome.stderr.slice(-4000)}`);
}
