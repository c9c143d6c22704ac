import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { LayerStorage } from '../../src/domain/model/image.ts';
import { CriClient } from '../../src/runtime/cri/cri-client.ts';
import { startPrivateBus } from '../support/bus/private-bus.ts';
import { startSystemdDouble } from '../support/bus/systemd-double.ts';
import { mirrorToml } from '../support/crio-double/source-and-double.ts';
import { startCrioDouble } from '../support/crio-double/start-crio-double.ts';
import { startContainerd } from '../support/daemon/runtimes/containerd.ts';
import { execute } from '../support/rootfs/execute.ts';
import { skopeoArgv } from '../support/rootfs/trixie-root.ts';
import { cpuMsOf } from './process-cost.ts';

/** The registry that every image of a bench is called after; nothing answers there. */
export const BENCH_REGISTRY = 'registry.example.com';

/** Which runtime; the double stands in for CRI-O. */
export type RuntimeKind = 'containerd' | 'cri-o';

/** A new, empty runtime, and the bus that a daemon beside it needs. */
export interface DaemonSurroundings {
  /**
   * Processor time that the runtime has used so far, in milliseconds; 0 for the one that is in the
   * daemon.
   */
  cpuMs(): number;
  /** Sections of the daemon's settings: `[runtime]`, `[crio]`. */
  readonly settings: string;
  /** Environment of the daemon. */
  readonly env: Readonly<Record<string, string>>;
  readonly layerStorage: LayerStorage;
  /** Where it keeps images: bytes and inodes in use. */
  used(): Promise<{ bytes: number; inodes: number }>;
  stop(): Promise<void>;
}

/** A runtime that runs as a process of its own. */
export interface BenchRuntime extends DaemonSurroundings {
  /**
   * Leads pulls from {@link BENCH_REGISTRY} to `authority`, a registry that serves them under its
   * full mirror paths.
   */
  leadTo(authority: string): Promise<void>;
  pull(reference: string): Promise<void>;
  imageCount(): Promise<number>;
  pinnedCount(): Promise<number>;
  /** Pins all its images as a person would without stickpin. */
  pinByHand(): Promise<void>;
  /** The command line of `ctr`. */
  ctr(...args: readonly string[]): readonly string[];
  /** Ends it without warning; {@link BenchRuntime.restart} starts it with what it has stored. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  /** As skopeo names its storage: `[overlay@…+…]`. Only of the double. */
  readonly containersStorage: string;
}

const never = new AbortController().signal;

/**
 * Starts one. Needs root and the trixie root folder.
 *
 * @param base a folder for pins
 * @param enter the words before its command line, as those that enter a network namespace
 */
export async function startBenchRuntime(
  kind: RuntimeKind,
  base: string,
  enter: readonly string[] = [],
): Promise<BenchRuntime> {
  const bus = await startPrivateBus();
  const systemd = await startSystemdDouble(bus.address);
  const runtime = kind === 'containerd' ? await containerdParts(enter) : await crioParts(base, systemd, enter);
  const cri = new CriClient({ socketPath: runtime.socketPath, timeoutMs: 60_000 });
  return {
    ...runtime,
    cpuMs: () => cpuMsOf(runtime.pid),
    env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address },
    used: () => diskUse(runtime.storage),
    pull: async (reference) => void (await cri.pullImage(reference, never)),
    imageCount: async () => (await cri.listImages(never)).length,
    pinnedCount: async () => (await cri.listImages(never)).filter(({ pinned }) => pinned).length,
    stop: async () => {
      cri.close();
      await runtime.stop();
      systemd.stop();
      await bus[Symbol.asyncDispose]();
    },
  };
}

/** What a daemon with the embedded runtime needs. */
export async function embeddedSurroundings(base: string): Promise<DaemonSurroundings> {
  const bus = await startPrivateBus();
  const storage = join(base, 'state/images');
  mkdirSync(storage, { recursive: true });
  return {
    cpuMs: () => 0,
    settings: '[runtime]\nkind = "embedded"\n',
    env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address },
    layerStorage: 'compressed',
    used: () => diskUse(storage),
    stop: () => bus[Symbol.asyncDispose](),
  };
}

async function containerdParts(enter: readonly string[]) {
  const containerd = await startContainerd({ enter });
  return {
    get pid() {
      return containerd.pid;
    },
    socketPath: containerd.socketPath,
    containersStorage: '',
    storage: join(dirname(containerd.socketPath), 'root'),
    layerStorage: 'both' as const,
    settings: `
      [runtime]
      kind = "containerd"
      socket = "${containerd.socketPath}"
      certs_dir = "${containerd.certsDirectory}"
    `,
    leadTo: async (authority: string) => {
      const folder = join(containerd.certsDirectory, BENCH_REGISTRY);
      mkdirSync(folder, { recursive: true });
      const host = `[host."http://${authority}/v2/${BENCH_REGISTRY}"]`;
      const text = `server = "https://${BENCH_REGISTRY}"\n${host}\ncapabilities = ["pull", "resolve"]\noverride_path = true\n`;
      writeFileSync(join(folder, 'hosts.toml'), text);
    },
    ctr: (...args: readonly string[]) => containerd.ctrArgv(...args),
    pinByHand: async () => {
      const names = (await containerd.ctr('images', 'ls', '--quiet')).split('\n');
      for (const name of names.filter((line) => line !== '' && !line.startsWith('sha256:')))
        await containerd.ctr('images', 'label', name, 'io.cri-containerd.pinned=pinned');
    },
    kill: containerd.kill,
    restart: containerd.restart,
    stop: containerd.stop,
  };
}

async function crioParts(
  base: string,
  systemd: Awaited<ReturnType<typeof startSystemdDouble>>,
  enter: readonly string[],
) {
  const folder = mkdtempSync(join(base, 'crio-'));
  const start = () => startCrioDouble({ skopeo: skopeoArgv(), storageDriver: 'overlay', enter, base: folder });
  let double = await start();
  systemd.addUnit('crio.service', { Unit: { ActiveState: 'active' } });
  systemd.hooks.reload = async () => {
    double.reload();
    return 'done';
  };
  const { crioConfig, crioDropIns, registriesFile, registriesDropIns, registriesD, policyFile, graphRoot } =
    double.dirs;
  mkdirSync(join(base, 'pins'), { recursive: true });
  return {
    get pid() {
      return double.process.pid ?? 0;
    },
    socketPath: double.socketPath,
    containersStorage: `[overlay@${graphRoot}+${double.dirs.base}/run/storage]`,
    storage: graphRoot,
    layerStorage: 'unpacked' as const,
    settings: `
      [runtime]
      kind = "cri-o"
      socket = "${double.socketPath}"
      [crio]
      config_file = "${crioConfig}/crio.conf"
      config_dir = "${crioDropIns}"
      pins_file = "${base}/pins/99-stickpin.conf"
      registries_conf = "${registriesFile}"
      registries_dir = "${registriesDropIns}"
      registries_d = "${registriesD}"
      signature_policy = "${policyFile}"
    `,
    leadTo: async (authority: string) => {
      const text = mirrorToml(BENCH_REGISTRY, `${authority}/${BENCH_REGISTRY}`);
      writeFileSync(join(registriesDropIns, '50-bench.conf'), text);
      const failure = await double.reloadAndWait();
      if (failure !== undefined) throw new Error(failure);
    },
    ctr: (): readonly string[] => {
      throw new Error('CRI-O has no ctr');
    },
    pinByHand: async () => {
      writeFileSync(join(crioDropIns, '99-bench.conf'), `[crio.image]\npinned_images = ["${BENCH_REGISTRY}/*"]\n`);
      const failure = await double.reloadAndWait();
      if (failure !== undefined) throw new Error(failure);
    },
    kill: () => double.kill(),
    restart: async () => {
      double = await start();
    },
    stop: () => double.stop(),
  };
}

async function diskUse(path: string): Promise<{ bytes: number; inodes: number }> {
  mkdirSync(path, { recursive: true });
  const first = async (...options: readonly string[]) =>
    Number.parseInt(await execute(['du', '--summarize', ...options, path]), 10);
  return { bytes: await first('--block-size=1'), inodes: await first('--inodes') };
}
