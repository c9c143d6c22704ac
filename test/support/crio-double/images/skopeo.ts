import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DoubleOptions } from '../options.ts';

/**
 * How a run of skopeo ended. `message` is its own fatal message, without time and level; empty on
 * success. `output`: what it printed.
 */
export interface SkopeoResult {
  readonly ok: boolean;
  readonly message: string;
  readonly output: string;
}

/**
 * Real skopeo, and with it CRI-O's own libraries, working on the storage and on one snapshot of the
 * registries configuration.
 */
export interface Skopeo {
  /**
   * Copies an image from its registry into the storage under its own name. Aborting kills the
   * process.
   *
   * @param progressTimeoutMs kills it when it reads and writes nothing for so long; 0 means never.
   *   Both end in `context canceled`.
   */
  pull(request: PullRequest, signal: AbortSignal): Promise<SkopeoResult>;
  /** Asks the registry for the manifest of what `pull` was to pull, and for nothing else. */
  readManifest(request: PullRequest, signal: AbortSignal): Promise<SkopeoResult>;
  /** Copies what `pull` was to pull into a new directory, as it is. */
  copyTo(directory: string, request: PullRequest, signal: AbortSignal): Promise<SkopeoResult>;
  /** Deletes an image with all its names. */
  deleteImage(id: string): Promise<SkopeoResult>;
  /**
   * Loads the registries configuration of a snapshot: undefined when it is good, else the library's
   * message.
   */
  judgeRegistries(home: string): Promise<string | undefined>;
}

/**
 * What `pull` needs to know: the stored name, the snapshot to pull by, and what the configuration
 * says.
 */
export interface PullRequest {
  readonly name: string;
  /** `user:password`, or undefined. */
  readonly credentials?: string;
  readonly home: string;
  readonly policyFile: string;
  readonly bigFilesDirectory: string;
  readonly progressTimeoutMs: number;
}

/** Runs skopeo as the options say. */
export function createSkopeo(options: DoubleOptions): Skopeo {
  const store = `[${options.storageDriver}@${options.root}+${options.runRoot}]`;
  const [program, ...words] = options.skopeo;
  const run = (args: readonly string[], environment: Record<string, string>, signal?: AbortSignal, timeoutMs = 0) =>
    runProgram([program, ...words, ...args], environment, signal, timeoutMs);
  return {
    pull: (request, signal) =>
      withStaging(request.bigFilesDirectory, (staging) => {
        const credentials = request.credentials === undefined ? [] : ['--src-creds', request.credentials];
        const global = ['--tmpdir', staging, '--policy', request.policyFile, '--registries.d', options.registriesD];
        const copy = [...credentials, `docker://${request.name}`, `containers-storage:${store}${request.name}`];
        const environment = { HOME: request.home };
        return run([...global, 'copy', '--quiet', ...copy], environment, signal, request.progressTimeoutMs);
      }),
    readManifest: ({ name, credentials, home }, signal) =>
      run(
        ['inspect', '--raw', ...(credentials === undefined ? [] : ['--creds', credentials]), `docker://${name}`],
        { HOME: home },
        signal,
      ),
    copyTo: (directory, { name, credentials, home, policyFile, progressTimeoutMs }, signal) => {
      const given = credentials === undefined ? [] : ['--src-creds', credentials];
      const global = ['--policy', policyFile, '--registries.d', options.registriesD];
      const copy = ['copy', '--quiet', '--preserve-digests', ...given, `docker://${name}`, `dir:${directory}`];
      return run([...global, ...copy], { HOME: home }, signal, progressTimeoutMs);
    },
    deleteImage: (id) => run(['delete', `containers-storage:${store}@${id}`], {}),
    judgeRegistries: async (home) => {
      // Nothing listens on port 1: with a good configuration this fails at the connection, with a
      // bad one before it.
      const { message } = await run(['inspect', '--raw', 'docker://127.0.0.1:1/none'], { HOME: home });
      return /loading (?:drop-in )?registries configuration ".*/s.exec(message)?.[0];
    },
  };
}

/**
 * Layers are staged in a directory of their own, so that a killed process leaves nothing behind.
 */
async function withStaging<T>(parent: string, run: (staging: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true });
  const staging = await mkdtemp(join(parent, 'crio-staging-'));
  try {
    return await run(staging);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

function runProgram(
  argv: readonly [string, ...string[]],
  environment: Record<string, string>,
  signal: AbortSignal | undefined,
  progressTimeoutMs: number,
): Promise<SkopeoResult> {
  const [file, ...args] = argv;
  const child = spawn(file, args, { env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
  const errors: Buffer[] = [];
  const printed: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => printed.push(chunk));
  let cancelled = false;
  const cancel = () => {
    cancelled = true;
    child.kill('SIGKILL');
  };
  const stopWatching = watchProgress(child.pid, progressTimeoutMs, cancel);
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  signal?.addEventListener('abort', cancel, { once: true });
  if (signal?.aborted) cancel();
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ ok: false, message: `starting ${file}: ${error.message}`, output: '' }));
    child.once('close', (code) => {
      stopWatching();
      signal?.removeEventListener('abort', cancel);
      const message = cancelled ? 'context canceled' : fatalMessage(Buffer.concat(errors).toString());
      const output = Buffer.concat(printed).toString();
      resolve(code === 0 ? { ok: true, message: '', output } : { ok: false, message, output });
    });
  });
}

/**
 * Calls `stalled` once when the process has neither read nor written a byte for `timeoutMs`, by the
 * kernel's counters.
 */
function watchProgress(pid: number | undefined, timeoutMs: number, stalled: () => void): () => void {
  if (timeoutMs === 0 || pid === undefined) return () => {};
  let last = { counters: '', atMs: performance.now() };
  const timer = setInterval(
    async () => {
      const counters = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '');
      const [rchar] = counters.split('\n');
      if (rchar !== last.counters) last = { counters: rchar ?? '', atMs: performance.now() };
      else if (performance.now() - last.atMs >= timeoutMs) stalled();
    },
    Math.max(timeoutMs / 10, 20),
  );
  return () => clearInterval(timer);
}

/** The text of the last logfmt line of level fatal; without one, all that was written. */
function fatalMessage(output: string): string {
  const quoted = [...output.matchAll(/level=fatal msg=("(?:[^"\\]|\\.)*"|\S+)/g)].at(-1)?.[1];
  if (quoted === undefined) return output.trim();
  return quoted.startsWith('"')
    ? quoted
        .slice(1, -1)
        .replace(/\\(["\\])/g, '$1')
        .replace(/\\n/g, '\n')
    : quoted;
}
