import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCriClient } from '../../src/runtime/cri-client.ts';
import { eventually } from './eventually.ts';
import { execute } from './rootfs/execute.ts';
import { trixieArgv, trixieRoot } from './rootfs/trixie-root.ts';

/** How containerd is started. */
export interface ContainerdOptions {
  /** Whether the configuration names a `config_path` for registries, without which mirrors can't work; default true. */
  readonly withConfigPath?: boolean;
  /** Default overlayfs; native works everywhere. */
  readonly snapshotter?: 'overlayfs' | 'native';
}

/** A containerd that runs. Its paths are the same to the test and to the daemon. */
export interface Containerd {
  /** The socket of the CRI and of containerd's own services. */
  readonly socketPath: string;
  /** `config_path`: a folder for each registry, with a `hosts.toml`. */
  readonly certsDirectory: string;
  readonly configFile: string;
  /** Runs trixie's `ctr` in the namespace `k8s.io` and returns what it prints. Rejects when it fails. */
  ctr(...args: readonly string[]): Promise<string>;
  /** What it has logged so far. */
  log(): string;
  /** Ends it and starts it again with what it has stored. */
  restart(): Promise<void>;
  /** Ends it and removes everything of it. Safe to call twice. */
  stop(): Promise<void>;
}

/**
 * Starts trixie's containerd 1.7 as a plain process of this host, with directories of its own below a temporary one, and waits until its
 * CRI answers. It has no network plugins and runs no containers: only its images are of use. Needs root.
 *
 * @throws Error with its log when it doesn't come up.
 */
export async function startContainerd(options: ContainerdOptions = {}): Promise<Containerd> {
  await trixieRoot();
  const base = mkdtempSync(join(tmpdir(), 'containerd-'));
  const socketPath = join(base, 'containerd.sock');
  const configFile = join(base, 'config.toml');
  const certsDirectory = join(base, 'certs.d');
  await mkdir(certsDirectory);
  await writeFile(configFile, configuration(base, certsDirectory, options));
  const log: Buffer[] = [];
  let running: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    running = spawnDaemon(configFile, log);
    await answering(socketPath, running).catch(async (error: unknown) => {
      await end(running);
      throw new Error(`containerd did not come up\n${Buffer.concat(log).toString().slice(-4000)}`, { cause: error });
    });
  };
  const stop = async (): Promise<void> => {
    await end(running);
    running = undefined;
    await rm(base, { recursive: true, force: true });
  };

  await start().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    socketPath,
    certsDirectory,
    configFile,
    ctr: (...args) => execute(trixieArgv('ctr', '--address', socketPath, '--namespace', 'k8s.io', ...args)),
    log: () => Buffer.concat(log).toString(),
    restart: async () => {
      await end(running);
      await start();
    },
    stop,
  };
}

function configuration(base: string, certsDirectory: string, options: ContainerdOptions): string {
  const { withConfigPath = true, snapshotter = 'overlayfs' } = options;
  const registry = `[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "${certsDirectory}"\n`;
  return `version = 2
root = "${base}/root"
state = "${base}/state"
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.nri.v1.nri"]

[grpc]
  address = "${base}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "${base}/opt"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "${snapshotter}"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "${base}/cni/bin"
  conf_dir = "${base}/cni/net.d"

${withConfigPath ? registry : ''}`;
}

/** What it mounts while it unpacks stays in its mount namespace and goes with it; it dies with the test process. */
function spawnDaemon(configFile: string, log: Buffer[]): ChildProcess {
  const [file = '', ...args] = trixieArgv('setpriv', '--pdeathsig', 'KILL', 'containerd', '--config', configFile);
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => log.push(chunk));
  return child;
}

async function answering(socketPath: string, child: ChildProcess): Promise<void> {
  const client = createCriClient({ socketPath, timeoutMs: 2_000 });
  try {
    await eventually(async () => {
      if (child.exitCode === null) await client.version(new AbortController().signal);
    }, 30_000);
    if (child.exitCode !== null) throw new Error(`containerd ended with ${child.exitCode}`);
  } finally {
    client.close();
  }
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const impatience = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await ended;
  clearTimeout(impatience);
}
