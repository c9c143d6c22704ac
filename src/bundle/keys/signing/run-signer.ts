import { type ChildProcess, spawn } from 'node:child_process';
import { type AppError, reasonOf } from '../../../platform/app-error.ts';
import { linkSignals } from '../../../platform/async/abort.ts';
import { formatDuration } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';
import { killTree } from './kill-tree.ts';

/** A command that signs. */
export interface SignerCommand {
  /** For `/bin/sh -c`. */
  readonly command: string;
  /** The command is stopped after this time. */
  readonly timeoutMs: number;
  /**
   * A person sits at a terminal. The command keeps it, so that it can ask for a PIN, and its
   * messages are shown. Otherwise it runs in a process group of its own, which is stopped as a
   * whole.
   */
  readonly isInteractive: boolean;
}

/** No signature of bundle format 1 is longer than 72 bytes. */
const MAX_OUTPUT_BYTES = 4096;
const MAX_MESSAGE_BYTES = 4096;

/**
 * Runs a command that gets a message on its standard input and writes a signature over it to its
 * standard output, as bytes.
 *
 * @throws AppError `bundle/signer` (`reject`) when it can't be started, ends with another exit code
 *   than 0, takes too long, or writes nothing or too much; whatever aborted `signal`
 */
export async function runSigner(signer: SignerCommand, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  signal.throwIfAborted();
  const { command, isInteractive, timeoutMs } = signer;
  const child = spawn('/bin/sh', ['-c', command], {
    stdio: ['pipe', 'pipe', isInteractive ? 'inherit' : 'pipe'],
    detached: !isInteractive,
  });
  const either = linkSignals([signal, AbortSignal.timeout(timeoutMs)]);
  const ended = await outcomeOf(child, message, either.signal).finally(either.release);
  if (ended.kind === 'stopped') stop(child, isInteractive);
  signal.throwIfAborted();
  if (ended.kind === 'done') return ended.output;
  throw failed(ended.kind === 'stopped' ? (ended.why ?? tooSlow(timeoutMs)) : ended.why);
}

type Outcome =
  | { readonly kind: 'done'; readonly output: Buffer }
  /** It may still run. `why` is absent when a signal aborted. */
  | { readonly kind: 'stopped'; readonly why?: string }
  | { readonly kind: 'failed'; readonly why: string };

/** Does not wait for children of the command that keep its output open after an abort. */
function outcomeOf(child: ChildProcess, message: Buffer, stopSignal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    let errors = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else resolve({ kind: 'stopped', why: `wrote more than ${MAX_OUTPUT_BYTES} bytes, which is no signature` });
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      errors = `${errors}${chunk.toString('utf8')}`.slice(-MAX_MESSAGE_BYTES);
    });
    child.on('error', (error) => resolve({ kind: 'failed', why: `can't be started: ${reasonOf(error)}` }));
    child.on('close', (code, killedBy) => resolve(endOf(code, killedBy, Buffer.concat(chunks), errors)));
    stopSignal.addEventListener('abort', () => resolve({ kind: 'stopped' }), { once: true });
    // A command that ends without reading all breaks the pipe; its exit code tells more.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(message);
  });
}

function endOf(code: number | null, killedBy: string | null, output: Buffer, errors: string): Outcome {
  const said = errors.trim().split('\n').at(-1) ?? '';
  const last = said === '' ? '' : `: ${said}`;
  if (code !== 0) return { kind: 'failed', why: `ended with ${killedBy ?? `exit code ${code}`}${last}` };
  if (output.length === 0) return { kind: 'failed', why: `wrote nothing to its standard output${last}` };
  return { kind: 'done', output };
}

function tooSlow(timeoutMs: number): string {
  return `gave no signature within ${formatDuration(timeoutMs)} and was stopped; --signer-timeout gives it more time`;
}

function failed(why: string): AppError {
  return bundleError('bundle/signer', `the command of --signer ${why}; nothing was signed`);
}

/** Kills what still runs, and lets go of it. */
function stop(child: ChildProcess, isInteractive: boolean): void {
  for (const stream of child.stdio) stream?.destroy();
  child.unref();
  if (child.pid === undefined) return;
  if (isInteractive) {
    killTree(child.pid);
    return;
  }
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
