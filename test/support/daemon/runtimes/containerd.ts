import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { sandboxImage, writeSandboxImage } from '../../bundles/program-image.ts';
import { endProcess } from '../../end-process.ts';
import { eventually } from '../../eventually.ts';
import { containerdTwoPrograms } from '../../rootfs/containerd-two.ts';
import { execute } from '../../rootfs/execute.ts';
import { trixieArgv, trixieRoot } from '../../rootfs/trixie-root.ts';

/** How containerd is started. */
export interface ContainerdOptions {
  /**
   * Whether the configuration names a `config_path` for registries, without which mirrors can't
   * work; default true.
   */
  readonly withConfigPath?: boolean;
  /**
   * `2`: containerd 2 of Debian's suite `testing`, with a configuration of version 3 that takes its
   * registries from an imported file. It runs no containers. Default: trixie's 1.7.
   */
  readonly release?: '1.7' | '2';
  /**
   * What `config_path` has after its first directory, as `:/etc/docker/certs.d`. Default nothing.
   */
  readonly furtherCerts?: string;
  /** Whether containerd 2 pulls as 1.7 does, without its transfer service. Default false. */
  readonly pullsLocally?: boolean;
  /** Default overlayfs; native works everywhere. */
  readonly snapshotter?: 'overlayfs' | 'native';
  /**
   * Whether containers can run: with crun, without cgroups, on the host's network. Default false:
   * only its images are of use.
   */
  readonly withContainers?: boolean;
  /** The words before its command line, as those that enter a network namespace. Default none. */
  readonly enter?: readonly string[];
}

/** A containerd that runs. Its paths are the same to the test and to the daemon. */
export interface Containerd {
  /** The socket of the CRI and of containerd's own services. */
  readonly socketPath: string;
  /** `config_path`: a folder for each registry, with a `hosts.toml`. */
  readonly certsDirectory: string;
  readonly configFile: string;
  /** Its process, until it is restarted. */
  readonly pid: number;
  /** The command line of trixie's `ctr` in the namespace `k8s.io`. */
  ctrArgv(...args: readonly string[]): string[];
  /**
   * Runs trixie's `ctr` in the namespace `k8s.io` and returns what it prints. Rejects when it
   * fails.
   */
  ctr(...args: readonly string[]): Promise<string>;
  /**
   * Takes the labels by which stickpin knows its pins from all images, so that it is as on a node
   * where stickpin never ran.
   */
  forgetPins(): Promise<void>;
  /**
   * Has images of a registry pulled from this host, by HTTP. Returns the content of the file, and
   * what takes it away again.
   */
  sendTo(host: string, registry?: string): { readonly text: string; readonly undo: () => void };
  /**
   * Ends it and starts it again with what it has stored. Containers don't outlive it: to them it is
   * a reboot.
   */
  restart(): Promise<void>;
  /** Ends it in order (SIGTERM); {@link Containerd.restart} starts it again. */
  end(): Promise<void>;
  /** Ends it without warning (SIGKILL); {@link Containerd.restart} starts it again. */
  kill(): Promise<void>;
  /** Ends it and removes everything of it. Safe to call twice. */
  stop(): Promise<void>;
}

/**
 * Starts trixie's containerd 1.7, or containerd 2, as a plain process of this host, with
 * directories of its own below a temporary one, and waits until its CRI answers. It has no network
 * plugins. With containers it has an image for its sandboxes too, and everything runs in a process
 * namespace of its own, so that nothing is left behind whatever happens to the test. Needs root.
 *
 * @throws Error with its log when it doesn't come up.
 */
export async function startContainerd(options: ContainerdOptions = {}): Promise<Containerd> {
  await trixieRoot();
  const isTwo = options.release === '2';
  const programs = isTwo ? `${await containerdTwoPrograms()}/` : '';
  const base = mkdtempSync(join(tmpdir(), 'containerd-'));
  const socketPath = join(base, 'containerd.sock');
  const configFile = join(base, 'config.toml');
  const certsDirectory = join(base, 'certs.d');
  await mkdir(certsDirectory);
  await writeFile(configFile, (isTwo ? configurationOfTwo : configuration)(base, certsDirectory, options));
  if (isTwo) await writeRegistries(base, certsDirectory, options);
  // Not by `disable_cgroup` alone: crun would make cgroups for itself.
  const crun = '#!/bin/sh\nexec crun --cgroup-manager=disabled "$@"\n';
  await writeFile(join(base, 'crun'), crun, { mode: 0o755 });
  const log: Buffer[] = [];
  let running: ChildProcess | undefined;
  // `unshare` that has a child pays no attention to SIGTERM; what runs containers ends as by a
  // power cut.
  const stopSignal = options.withContainers ? 'SIGKILL' : 'SIGTERM';

  const start = async (): Promise<void> => {
    running = spawnDaemon([`${programs}containerd`, '--config', configFile], options, log);
    await answering(socketPath, running).catch(async (error: unknown) => {
      await end(running, stopSignal);
      throw new Error(`containerd did not come up\n${Buffer.concat(log).toString().slice(-4000)}`, { cause: error });
    });
  };
  const stop = async (): Promise<void> => {
    await end(running, stopSignal);
    running = undefined;
    await rm(base, { recursive: true, force: true });
  };

  const ctrArgv = (...args: readonly string[]) =>
    trixieArgv(`${programs}ctr`, '--address', socketPath, '--namespace', 'k8s.io', ...args);
  const ctr: Containerd['ctr'] = (...args) => execute(ctrArgv(...args));

  const forgetPins = async (): Promise<void> => {
    for (const name of (await ctr('images', 'ls', '--quiet')).split('\n').filter((line) => line !== '')) {
      await ctr('images', 'label', name, 'io.stickpin.pinned=', 'io.cri-containerd.pinned=');
    }
  };

  try {
    await start();
    if (options.withContainers) await ctr('images', 'import', await writeSandboxImage(base));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    socketPath,
    certsDirectory,
    configFile,
    get pid() {
      return running?.pid ?? 0;
    },
    ctrArgv,
    ctr,
    forgetPins,
    sendTo: (host, registry = 'quay.example.com') => {
      const folder = join(certsDirectory, registry);
      mkdirSync(folder, { recursive: true });
      const text = `server = "http://${host}"\n\n[host."http://${host}"]\n  capabilities = ["pull", "resolve"]\n`;
      writeFileSync(join(folder, 'hosts.toml'), text);
      return { text, undo: () => rmSync(folder, { recursive: true, force: true }) };
    },
    restart: async () => {
      await end(running, stopSignal);
      await start();
    },
    end: () => end(running, stopSignal),
    kill: () => end(running, 'SIGKILL'),
    stop,
  };
}

function configuration(base: string, certsDirectory: string, options: ContainerdOptions): string {
  const { withConfigPath = true, snapshotter = 'overlayfs', withContainers = false } = options;
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

${withConfigPath ? registry : ''}
${withContainers ? containers(base) : ''}`;
}

/** Version 3 of the configuration, with its registries in a folder of fragments. */
function configurationOfTwo(base: string, _certsDirectory: string, { snapshotter = 'overlayfs' }: ContainerdOptions) {
  return `version = 3
root = "${base}/root"
state = "${base}/state"
imports = ["conf.d/*.toml"]
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.nri.v1.nri"]

[grpc]
  address = "${base}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "${base}/opt"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "${snapshotter}"

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dir = "${base}/cni/bin"
  conf_dir = "${base}/cni/net.d"
${
  snapshotter === 'native'
    ? `
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux/${process.arch === 'arm64' ? 'arm64' : 'amd64'}"
  snapshotter = "native"
`
    : ''
}`;
}

async function writeRegistries(
  base: string,
  certsDirectory: string,
  { withConfigPath = true, furtherCerts = '', pullsLocally = false }: ContainerdOptions,
): Promise<void> {
  if (!withConfigPath) return;
  const local = pullsLocally ? '[plugins."io.containerd.cri.v1.images"]\n  discard_unpacked_layers = true\n' : '';
  const table = `${local}[plugins."io.containerd.cri.v1.images".registry]\n  config_path = "${certsDirectory}${furtherCerts}"\n`;
  await mkdir(join(base, 'conf.d'));
  await writeFile(join(base, 'conf.d/10-registries.toml'), `version = 3\n${table}`);
}

/** A process that is confined itself may not lower its OOM score, as sandboxes ask for. */
function containers(base: string): string {
  return `[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${sandboxImage}"
  restrict_oom_score_adj = true
  disable_cgroup = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "${base}/crun"
`;
}

/** crun refuses a host that has both versions of cgroups, even when it is to make none. */
export const oneCgroupVersion = ['sh', '-c', 'umount -q /sys/fs/cgroup/unified; exec "$@"', 'sh'];

/**
 * What it mounts while it unpacks stays in its mount namespace and goes with it; it dies with the
 * test process, and with it its containers.
 */
function spawnDaemon(argv: readonly string[], options: ContainerdOptions, log: Buffer[]): ChildProcess {
  const { withContainers, enter = [] } = options;
  const mortal = ['setpriv', '--pdeathsig', 'KILL'];
  const processes = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const own = withContainers
    ? trixieArgv(...oneCgroupVersion, ...mortal, ...processes, ...argv)
    : trixieArgv(...mortal, ...argv);
  const [file = '', ...args] = [...enter, ...own];
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => log.push(chunk));
  return child;
}

async function answering(socketPath: string, child: ChildProcess): Promise<void> {
  const client = new CriClient({ socketPath, timeoutMs: 2_000 });
  try {
    await eventually(async () => {
      if (child.exitCode === null) await client.version(new AbortController().signal);
    }, 30_000);
    if (child.exitCode !== null) throw new Error(`containerd ended with ${child.exitCode}`);
  } finally {
    client.close();
  }
}

/** Waits for its end after the signal; who takes no notice of SIGTERM is killed after 10 s. */
async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  const impatience = setTimeout(() => child?.kill('SIGKILL'), 10_000);
  await endProcess(child, signal);
  clearTimeout(impatience);
}
