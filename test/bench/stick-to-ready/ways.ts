import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectApi } from '../../../src/api/client.ts';
import type { DisposalStack } from '../../../src/platform/async/disposal.ts';
import { installKeys } from '../../support/bundles/sample-bundle.ts';
import { startPrivateBus } from '../../support/bus/private-bus.ts';
import { type DockerEngine, startDockerEngine } from '../../support/daemon/runtimes/docker-engine.ts';
import { endProcess } from '../../support/end-process.ts';
import { startDockerRegistry } from '../../support/registry/docker-registry.ts';
import { skopeoArgv } from '../../support/rootfs/trixie-root.ts';
import { type BenchRuntime, type RuntimeKind, startBenchRuntime } from '../bench-runtime.ts';
import { startChild } from '../child.ts';
import { startDaemonProcess } from '../daemon-process.ts';
import type { RegistryTold } from '../load/registry-child.ts';
import { daemonSettings } from '../preload/preload-daemon.ts';
import type { Stick } from './stick-set.ts';

type EngineKind = 'docker' | 'podman';
type NodeKind = RuntimeKind | EngineKind;

/** The runtime of a node. */
interface Runtime {
  imageCount(): Promise<number>;
  /** Images that nothing but their owner removes. */
  pinnedCount(): Promise<number>;
  /** Not of Docker and Podman, which have no pins. */
  pinByHand?(): Promise<void>;
  /** Ends it without warning; {@link Runtime.restart} starts it again with what it has stored. */
  kill(): Promise<void>;
  restart(): Promise<void>;
}

/** A way on a new, empty node. */
export interface Attempt {
  /** Absent where nothing is brought anywhere. */
  readonly runtime?: Runtime;
  /** Brings all images: the runtime has them afterwards, and with stickpin they are pinned. */
  bring(signal: AbortSignal): Promise<void>;
  /** Of the daemon or the registry that serves: its own cost is of interest. */
  ownPid?(): number | undefined;
  /** Ends what the way has running beside the runtime without warning, and starts it again. */
  killOwn?(): Promise<void>;
  restartOwn?(): Promise<void>;
}

/** A way to get the images of a stick into a runtime. */
export interface Way {
  readonly name: string;
  /** What a reader types for it. */
  readonly command: string;
  /** What a reader types to keep the images, where the runtime can. */
  readonly pin?: string | undefined;
  /** What it reads of the stick: a member of {@link Stick}. */
  readonly reads: keyof Stick;
  /** `base` is a new folder of the node. What is started ends with the stack. */
  open(stick: Stick, base: string, stack: DisposalStack): Promise<Attempt>;
}

const PIN_BY_HAND = {
  containerd: '`ctr -n k8s.io images label IMAGE io.cri-containerd.pinned=pinned` for each',
  'cri-o': '`pinned_images` in `/etc/crio/crio.conf.d/`, `systemctl reload crio`',
} as const;
const TITLES: Readonly<Record<NodeKind, string>> = {
  containerd: 'containerd',
  'cri-o': 'CRI-O double',
  docker: 'Docker',
  podman: 'Podman',
};
const BUNDLE = 'STICK/stickpin/BUNDLE';
const LOOK_MS = 20;

/** Reading is the least that any way needs. */
export const READING: Way = {
  name: 'reading alone',
  command: `\`cat ${BUNDLE}/blobs/sha256/* > /dev/null\``,
  reads: 'bundle',
  open: async ({ bundle }) => {
    const blobs = join(bundle.path, 'blobs/sha256');
    return { bring: (signal) => run(['find', blobs, '-type', 'f', '-exec', 'cat', '{}', '+'], signal) };
  },
};

export const stickpin = (kind: NodeKind): Way => ({
  name: `stickpin, ${TITLES[kind]}`,
  command: `plug the stick in, or \`stickpin load ${BUNDLE}\``,
  reads: 'bundle',
  open: async ({ bundle }, base, stack) => {
    const { runtime, settings, env } = await startNode(kind, base, stack);
    const config = join(base, 'bench.toml');
    installKeys(join(base, 'keys.d'), bundle.keys);
    mkdirSync(join(base, 'incoming'));
    writeFileSync(config, daemonSettings(base) + settings);
    let daemon = await startDaemonProcess(config, env);
    stack.defer('daemon', () => daemon.stop());
    return {
      runtime,
      ownPid: () => daemon.child.pid,
      bring: async (signal) => {
        const api = await connectApi({ ...process.env, ...env }, signal);
        try {
          await api.load({ path: bundle.path }, signal);
        } finally {
          api.close();
        }
        while (!daemon.hasReported('bundleReady')) await delay(LOOK_MS, undefined, { signal });
      },
      killOwn: () => endProcess(daemon.child, 'SIGKILL'),
      restartOwn: async () => {
        await daemon.stop();
        daemon = await startDaemonProcess(config, env);
      },
    };
  },
});

/** A registry, and how it comes to serve a stick. */
interface RegistryKind {
  readonly name: string;
  readonly command: string;
  readonly reads: keyof Stick;
  /** Whether its storage is first copied to the node. */
  readonly isCopied?: boolean;
  start(stick: Stick, base: string): Promise<{ authority: string; pid?: number; stop(): Promise<void> }>;
}

const serveStorage = async (folder: string, storage?: string) => {
  const { host, close } = await startDockerRegistry({ folder, ...(storage !== undefined && { storage }) });
  return { authority: host, stop: close };
};

export const REGISTRIES = {
  own: {
    name: "stickpin's registry without the daemon",
    command: `\`stickpin bundle serve ${BUNDLE}\``,
    reads: 'bundle',
    start: async ({ bundle }) => {
      const { hello, pid, stop } = await startChild<RegistryTold>('registry-child', [bundle.path]);
      return { authority: hello.authority, pid, stop };
    },
  },
  stick: {
    name: 'registry whose storage is on the stick',
    command: '`docker-registry serve` with `rootdirectory: STICK/registry`',
    reads: 'registry',
    start: ({ registry }, base) => serveStorage(base, registry),
  },
  node: {
    name: 'registry on the node',
    command: '`cp -r STICK/registry /srv`, `docker-registry serve` with `rootdirectory: /srv/registry`',
    reads: 'registry',
    isCopied: true,
    start: (_stick, base) => serveStorage(base),
  },
} as const satisfies Record<string, RegistryKind>;

export const pulls = (from: RegistryKind, kind: RuntimeKind, parallel: number): Way => ({
  name: `${from.name}, ${parallel} at once, ${TITLES[kind]}`,
  command: `${from.command}, \`xargs -n 1 -P ${parallel} crictl pull < IMAGES\``,
  pin: PIN_BY_HAND[kind],
  reads: from.reads,
  open: async (stick, base, stack) => {
    const runtime = await startBenchRuntime(kind, base);
    stack.defer('runtime', () => runtime.stop());
    let registry: Awaited<ReturnType<RegistryKind['start']>>;
    const start = async () => {
      registry = await from.start(stick, base);
      await runtime.leadTo(registry.authority);
    };
    await start();
    stack.defer('registry', () => registry.stop());
    return {
      runtime,
      ownPid: () => registry.pid,
      bring: async (signal) => {
        if (from.isCopied) await run(['cp', '-r', `${stick.registry}/.`, join(base, 'storage')], signal);
        const left = stick.bundle.contents.images.map(({ reference }) => reference);
        const pullNext = async (): Promise<void> => {
          for (let next = left.shift(); next !== undefined; next = left.shift()) {
            signal.throwIfAborted();
            await runtime.pull(next);
          }
        };
        await Promise.all(Array.from({ length: parallel }, pullNext));
      },
      killOwn: () => registry.stop(),
      restartOwn: start,
    };
  },
});

const importing = (name: string, ...flags: readonly string[]): Way => ({
  name,
  command: `\`${['ctr -n k8s.io images import', ...flags, 'STICK/images.tar'].join(' ')}\``,
  pin: PIN_BY_HAND.containerd,
  reads: 'tar',
  open: async ({ tar }, base, stack) => {
    const runtime = await startBenchRuntime('containerd', base);
    stack.defer('runtime', () => runtime.stop());
    return { runtime, bring: (signal) => run(runtime.ctr('images', 'import', ...flags, tar), signal) };
  },
});

export const IMPORT = importing('`ctr images import`');
/** k3s calls `Import` of containerd's client with all platforms, which does not unpack. */
export const K3S_IMPORT = importing('as k3s imports: not unpacked', '--all-platforms', '--no-unpack');

export const load = (kind: EngineKind): Way => ({
  name: `\`${kind} load\``,
  command: `\`${kind} load --input STICK/images.tar\``,
  reads: 'tar',
  open: async ({ tar }, _base, stack) => {
    const { engine, ...runtime } = await startEngine(kind, stack);
    const command = await engine.cli('load', '--quiet', '--input', tar);
    return { runtime, bring: (signal) => run(command, signal) };
  },
});

/** Into the storage of CRI-O, one image after the other. */
export const SKOPEO: Way = {
  name: '`skopeo copy` to containers-storage, CRI-O double',
  command: `\`skopeo copy oci:${BUNDLE}:@N containers-storage:IMAGE\` for each`,
  pin: PIN_BY_HAND['cri-o'],
  reads: 'bundle',
  open: async ({ bundle }, base, stack) => {
    const runtime = await startBenchRuntime('cri-o', base);
    stack.defer('runtime', () => runtime.stop());
    const copy = [...skopeoArgv(), '--insecure-policy', 'copy', '--quiet'];
    return {
      runtime,
      bring: async (signal) => {
        for (const [at, { reference }] of bundle.images.entries()) {
          const target = `containers-storage:${runtime.containersStorage}${reference}`;
          await run([...copy, `oci:${bundle.path}:@${at}`, target], signal);
        }
      },
    };
  },
};

async function startNode(kind: NodeKind, base: string, stack: DisposalStack) {
  if (kind === 'docker' || kind === 'podman') {
    const bus = await startPrivateBus();
    stack.defer('bus', () => bus[Symbol.asyncDispose]());
    const runtime = await startEngine(kind, stack);
    const settings = `[runtime]\nkind = "${kind}"\nsocket = "${runtime.engine.socketPath}"\n`;
    return { runtime, settings, env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address } };
  }
  const runtime: BenchRuntime = await startBenchRuntime(kind, base);
  stack.defer('runtime', () => runtime.stop());
  return { runtime, settings: runtime.settings, env: runtime.env };
}

async function startEngine(kind: EngineKind, stack: DisposalStack): Promise<Runtime & { engine: DockerEngine }> {
  const engine = await startDockerEngine(kind === 'docker' ? 'Docker 26' : 'Podman');
  stack.defer(kind, () => engine.stop());
  const count = async (path: string) => ((await engine.api('GET', path)) as readonly unknown[]).length;
  return {
    engine,
    imageCount: () => count('/images/json'),
    // Only a container, also one that never started, keeps an image.
    pinnedCount: () => count('/containers/json?all=1'),
    kill: () => engine.kill(),
    restart: () => engine.start(),
  };
}

/** @throws Error when it fails, or is killed since the signal aborts */
async function run([file = '', ...args]: readonly string[], signal: AbortSignal): Promise<void> {
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit'], signal, killSignal: 'SIGKILL' });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
}
