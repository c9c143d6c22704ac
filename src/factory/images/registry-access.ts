import { spawn } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { limits } from '../../bundle/limits.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';

/** Absent values are skopeo's defaults. */
export interface RegistryAccess {
  /** containers-auth.json(5). */
  readonly authfile?: string;
  readonly tlsVerify?: boolean;
  /** Pauses grow. */
  readonly retries?: number;
}

/** skopeo-inspect(1), skopeo-copy(1). */
export function accessFlags({ authfile, tlsVerify, retries }: RegistryAccess, command: 'inspect' | 'copy'): string[] {
  const tls = command === 'copy' ? '--src-tls-verify' : '--tls-verify';
  return [
    ...(authfile === undefined ? [] : ['--authfile', authfile]),
    ...(tlsVerify === undefined ? [] : [`${tls}=${tlsVerify}`]),
    ...(retries === undefined ? [] : ['--retry-times', `${retries}`]),
  ];
}

/** skopeo reads the file late. @throws AppError `bundle/option` */
export async function checkAccess({ authfile }: RegistryAccess): Promise<void> {
  if (authfile === undefined) return;
  const found = await stat(authfile).catch((cause: unknown) => {
    throw bundleError('bundle/option', `--authfile: ${authfile} can't be read: ${reasonOf(cause)}`, { cause });
  });
  if (found.isDirectory())
    throw bundleError('bundle/option', `--authfile: ${authfile} is a folder: name the file in it`);
}

/**
 * An abort kills it. `what`: the image. @returns its stdout, at most 4 MiB
 *
 * @throws AppError `bundle/skopeo` with skopeo's last line, or another way to give the image
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

const INTERVAL_MS = 250;

/** skopeo has no machine-readable progress. A missing folder counts as 0. */
export async function watchSize<T>(
  folder: string,
  onBytes: (bytes: number) => void,
  act: () => Promise<T>,
): Promise<T> {
  let isDone = false;
  let isBusy = false;
  const look = async () => {
    if (isBusy) return;
    isBusy = true;
    const bytes = await sizeOf(folder);
    isBusy = false;
    if (!isDone) onBytes(bytes);
  };
  const timer = setInterval(() => void look(), INTERVAL_MS);
  try {
    return await act();
  } finally {
    isDone = true;
    clearInterval(timer);
  }
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
