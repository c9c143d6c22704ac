import { type SpawnOptions, spawn } from 'node:child_process';

const MAX_ERRORS = 64 * 1024;
const INTERVAL_MS = 250;

/** `errors`: the last 64 KiB of stderr. */
export type Ended =
  | { readonly kind: 'exit'; readonly code: number | null; readonly errors: string }
  | { readonly kind: 'error'; readonly error: Error };

/**
 * Runs a program without input. An abort kills it, and is thrown when it has ended: its files are
 * removed next.
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  onOutput: (chunk: Buffer, kill: () => void) => void,
  signal: AbortSignal,
  options: Pick<SpawnOptions, 'cwd' | 'env' | 'detached'> = {},
): Promise<Ended> {
  signal.throwIfAborted();
  const ended = await new Promise<Ended>((resolve) => {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], signal });
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => onOutput(chunk, () => child.kill()));
    child.stderr.on('data', (chunk: Buffer) => {
      errors = `${errors}${chunk.toString('utf8')}`.slice(-MAX_ERRORS);
    });
    // An abort is reported before the program has ended; 'close' follows.
    child.on('error', (error) => signal.aborted || resolve({ kind: 'error', error }));
    child.on('close', (code) => resolve({ kind: 'exit', code, errors }));
  });
  signal.throwIfAborted();
  return ended;
}

/** Measures again and again while `act` works, for programs that report no progress. */
export async function measureWhile<T>(
  measure: () => Promise<number>,
  report: (bytes: number) => void,
  act: () => Promise<T>,
): Promise<T> {
  let isDone = false;
  let isBusy = false;
  const look = async () => {
    if (isBusy) return;
    isBusy = true;
    const bytes = await measure().catch(() => undefined);
    isBusy = false;
    if (!isDone && bytes !== undefined) report(bytes);
  };
  const timer = setInterval(() => void look(), INTERVAL_MS);
  try {
    return await act();
  } finally {
    isDone = true;
    clearInterval(timer);
  }
}
