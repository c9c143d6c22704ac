import { spawn } from 'node:child_process';

const TIMEOUT_MS = 600_000;

/** How a program runs: its input, its environment (default: this process's) and its folder. */
export interface ExecuteOptions {
  readonly input?: string | Buffer;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

/**
 * Runs a program that must succeed and returns its standard output. It is killed after ten minutes.
 *
 * @throws Error with the command, how it ended and the tail of its standard error.
 */
export async function execute(argv: readonly string[], { input, ...options }: ExecuteOptions = {}): Promise<string> {
  const [file = '', ...args] = argv;
  const child = spawn(file, args, {
    ...options,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    killSignal: 'SIGKILL',
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.stdin.on('error', () => undefined); // a program may end without reading its input
  child.stdin.end(input);
  const ending = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  if (ending === 'exit code 0') return Buffer.concat(stdout).toString();
  throw new Error(`${argv.join(' ')}: ${ending}\n${Buffer.concat(stderr).toString().slice(-4000)}`);
}
