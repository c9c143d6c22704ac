import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { EngineClient } from '../../../../src/runtime/docker/engine-client.ts';
import { endProcess } from '../../end-process.ts';
import { eventually } from '../../eventually.ts';
import { debianPrograms } from '../../rootfs/debian-programs.ts';
import { argvIn } from '../../rootfs/trixie-root.ts';
import { unpackedRoot } from '../../rootfs/unpacked-root.ts';
import { oneCgroupVersion } from './containerd.ts';

const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** Each engine that is supported, and its two image stores. */
export const engines = {
  'Docker 20.10': { suite: 'bookworm', package: 'docker.io' },
  'Docker 26': { suite: 'trixie', package: 'docker.io' },
  'Docker 26, containerd store': { suite: 'trixie', package: 'docker.io' },
  Podman: { suite: 'trixie', package: 'podman' },
} as const;

export type EngineKind = keyof typeof engines;

/** Engines come without their command line. */
const cliRecipe = { version: 1, suite: 'trixie', packages: ['docker-cli'] };

const settings: Partial<Record<EngineKind, (base: string) => object>> = {
  // Its folder in /etc is not writable here.
  'Docker 20.10': (base) => ({ 'deprecated-key-path': join(base, 'key.json') }),
  'Docker 26, containerd store': () => ({ features: { 'containerd-snapshotter': true } }),
};

/** An engine with folders and a socket of its own. */
export interface DockerEngine {
  readonly socketPath: string;
  /** The command line of `docker` or `podman` that reaches its images. */
  cli(...args: readonly string[]): Promise<readonly string[]>;
  /** Calls its API, and gives what it answers; an error that it answers is thrown. */
  api(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<unknown>;
  /** Ends it without warning; {@link DockerEngine.start} starts it again. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Ends it and removes everything of it. */
  stop(): Promise<void>;
}

/**
 * Starts Docker or Podman of a Debian release as a plain process of this host, without networks for
 * containers, and waits until it answers. Its containers run in a process namespace of its own, so
 * that nothing is left behind. Needs root.
 *
 * @throws Error with its log when it doesn't come up.
 */
export async function startDockerEngine(kind: EngineKind): Promise<DockerEngine> {
  const { suite, package: name } = engines[kind];
  const root = await unpackedRoot(`${name}-${suite}`, { version: 1, suite, architecture, packages: [name] });
  const base = mkdtempSync(join(tmpdir(), 'engine-'));
  const socketPath = join(base, 'engine.sock');
  const log: Buffer[] = [];
  let running: ChildProcess | undefined;
  await mkdir(join(base, 'tmp'));
  await writeFile(join(base, 'daemon.json'), JSON.stringify(settings[kind]?.(base) ?? {}));
  const argv = name === 'podman' ? podman(base, socketPath) : dockerd(base, socketPath);

  const start = async (): Promise<void> => {
    // Of one that was killed: in a new process namespace others have these ids.
    for (const pid of ['pid', 'exec/containerd/containerd.pid']) await rm(join(base, pid), { force: true });
    const mortal = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const [file = '', ...args] = [...mortal, ...oneCgroupVersion, ...argvIn(root, ...argv)];
    running = spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TMPDIR: join(base, 'tmp') },
    });
    for (const stream of [running.stdout, running.stderr]) stream?.on('data', (chunk: Buffer) => log.push(chunk));
    const client = new EngineClient(socketPath, 2_000);
    await eventually(() => client.version(new AbortController().signal), 30_000).catch(async (error: unknown) => {
      await kill();
      throw new Error(`${kind} did not come up\n${Buffer.concat(log).toString().slice(-4_000)}`, { cause: error });
    });
  };
  // `unshare` that has a child pays no attention to SIGTERM.
  const kill = () => endProcess(running, 'SIGKILL');
  const stop = async (): Promise<void> => {
    await kill();
    await rm(base, { recursive: true, force: true });
  };
  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  const cli: DockerEngine['cli'] = async (...args) => {
    if (name === 'podman') return argvIn(root, 'podman', ...podmanFolders(base), ...args);
    return [join(await debianPrograms('docker-cli', cliRecipe), 'docker'), '--host', `unix://${socketPath}`, ...args];
  };
  const api: DockerEngine['api'] = (method, path, body) => callApi(socketPath, method, path, body);
  return { socketPath, cli, api, kill, start, stop };
}

/** One attempt for each layer: the pauses between more are long. */
function dockerd(base: string, socketPath: string): string[] {
  const folders = ['--data-root', join(base, 'root'), '--exec-root', join(base, 'exec')];
  const files = ['--pidfile', join(base, 'pid'), '--config-file', join(base, 'daemon.json')];
  const limits = ['--iptables=false', '--bridge=none', '--max-download-attempts=1'];
  return ['dockerd', ...folders, ...files, ...limits, '--host', `unix://${socketPath}`];
}

function podman(base: string, socketPath: string): string[] {
  return ['podman', ...podmanFolders(base), 'system', 'service', '--time=0', `unix://${socketPath}`];
}

function podmanFolders(base: string): string[] {
  const folders = ['--root', join(base, 'root'), '--runroot', join(base, 'run'), '--tmpdir', join(base, 'podman')];
  return [...folders, '--cgroup-manager=cgroupfs'];
}

async function callApi(socketPath: string, method: string, path: string, body?: object): Promise<unknown> {
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  const call = request({ socketPath, method, path: `/v1.41${path}`, headers });
  call.end(body === undefined ? undefined : JSON.stringify(body));
  const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
    call.once('error', reject);
    call.once('response', (response) => {
      text(response).then((read) => resolve({ status: response.statusCode ?? 0, body: read }), reject);
    });
  });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`);
  return answer.body === '' ? undefined : JSON.parse(answer.body);
}
