import { spawn } from 'node:child_process';
import { reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';

/**
 * Runs skopeo and waits until it ends; an abort kills it.
 *
 * @param what what is being fetched, for the error.
 * @returns its stdout, at most 4 MiB.
 * @throws AppError `bundle/skopeo` (`reject`) with skopeo's own last line, or another way to give
 *   the image.
 */
export async function runSkopeo(args: readonly string[], what: string, signal: AbortSignal): Promise<Buffer> {
  signal.throwIfAborted();
  const ended = await waitFor(args, signal);
  signal.throwIfAborted();
  if (ended.kind === 'exit' && ended.code === 0) return ended.stdout;
  throw bundleError('bundle/skopeo', `${what} can't be fetched: ${reasonFor(ended)}`, {
    ...(ended.kind === 'error' && { cause: ended.error }),
  });
}

type Ended =
  | { readonly kind: 'exit'; readonly code: number | null; readonly stdout: Buffer; readonly stderr: string }
  | { readonly kind: 'error'; readonly error: Error };

function waitFor(args: readonly string[], signal: AbortSignal): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn('skopeo', args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= limits.manifestBytes) chunks.push(chunk);
      else child.kill();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = `${stderr}${chunk.toString('utf8')}`.slice(-4096);
    });
    child.on('error', (error) => {
      // An abort is reported before the child has ended; 'close' follows.
      if (!signal.aborted) resolve({ kind: 'error', error });
    });
    child.on('close', (code) => resolve({ kind: 'exit', code, stdout: Buffer.concat(chunks), stderr }));
  });
}

const REPACKED =
  'this storage keeps layers unpacked, so the image would get another digest; take it from its registry, or from an archive that was copied from the registry';

function reasonFor(ended: Ended): string {
  if (ended.kind === 'exit') {
    const message = lastMessage(ended.stderr) || `skopeo ended with ${ended.code}`;
    return /preserve digests/.test(message) ? `${message}: ${REPACKED}` : message;
  }
  return systemCodeOf(ended.error) === 'ENOENT'
    ? 'skopeo is not installed; install it, or give the image as oci:DIR:TAG'
    : reasonOf(ended.error);
}

/** skopeo logs `time="…" level=fatal msg="…"`; only the message helps an operator. */
function lastMessage(stderr: string): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  const message = / msg="((?:[^"\\]|\\.)*)"$/.exec(line)?.[1];
  return message === undefined
    ? line
    : message.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? ' ' : escaped));
}
