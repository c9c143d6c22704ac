import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { installKeys, type SampleKey } from '../bundles/sample-bundle.ts';
import { endProcess } from '../end-process.ts';
import { eventually } from '../eventually.ts';
import type { TestAuthority, TestCertificate } from './authority.ts';
import { layKubeletFiles } from './kubelet-files.ts';
import type { Machine } from './namespaces.ts';

/** How a node is set up. */
export interface RealNodeOptions {
  readonly name: string;
  readonly machine: Machine;
  /** Everything of it lies below. */
  readonly base: string;
  /** The folder with the built programs. */
  readonly dist: string;
  readonly certificate: TestCertificate;
  readonly authority: TestAuthority;
  readonly key: SampleKey;
  /** Lines of its settings, by section. */
  readonly settings?: { readonly fleet?: string; readonly other?: string };
  /**
   * Its runtime: the sections of the settings, and the environment of the daemon. Default embedded.
   */
  readonly runtime?: { readonly settings: string; readonly env: Readonly<Record<string, string>> };
  /** Of the system bus; by default there is none. */
  readonly bus?: string;
  /** Flags of Node.js, by program; default none. */
  readonly flags?: Readonly<Record<Which, readonly string[]>>;
}

/** The real daemon and the real fleet process, as two processes on one machine. */
export interface RealNode {
  readonly name: string;
  readonly stick: string;
  readonly address: string;
  readonly kubeconfig: string;
  readonly clientCa: string;
  /** Lines that each process wrote, as JSON. */
  readonly log: { readonly daemon: string[]; readonly fleet: string[] };
  /** Replaces the lines of section `fleet`; counts from the next start. */
  configure(fleet: string): void;
  start(which?: 'daemon' | 'fleet'): void;
  /** Ends a process, or both, at once. */
  kill(which?: 'daemon' | 'fleet'): Promise<void>;
  /** Removes all images, as CRI-O does after a power cut. Nothing may run. */
  wipeImages(): void;
  report(): StatusReport | undefined;
  /** Waits until every image of the release is there. */
  ready(timeoutMs?: number): Promise<void>;
  /** Names of stored blobs whose content is another one. */
  wrongBlobs(): string[];
  blobCount(): number;
}

type Which = 'daemon' | 'fleet';

const PROGRAMS = { daemon: 'main.js', fleet: 'fleet/main.js' };

/** A node that is not started yet. */
export function makeRealNode(options: RealNodeOptions): RealNode {
  const { name, machine, base, dist, settings = {}, runtime } = options;
  const at = (path: string) => join(base, name, path);
  for (const folder of ['stick/stickpin', 'incoming', 'run']) mkdirSync(at(folder), { recursive: true });
  installKeys(at('keys.d'), [options.key]);
  const { kubeconfig, clientCa } = layKubeletFiles(at('root'), options.certificate, options.authority);
  const log = { daemon: [] as string[], fleet: [] as string[] };
  const running = new Map<Which, ChildProcess>();
  const configure = (fleet: string) =>
    writeFileSync(
      at('stickpin.toml'),
      settingsText({ at, machine, kubeconfig, clientCa, fleet, runtime: runtime?.settings, other: settings.other }),
    );
  configure(settings.fleet ?? '');
  const start = (which: Which) => {
    const node = [process.execPath, ...(options.flags?.[which] ?? []), join(dist, PROGRAMS[which])];
    const [program = '', ...words] = [...machine.enter, ...node];
    const bus = { DBUS_SYSTEM_BUS_ADDRESS: options.bus ?? 'unix:path=/run/no-bus' };
    const env = { PATH: process.env.PATH, ...bus, MALLOC_ARENA_MAX: '1', ...(which === 'daemon' && runtime?.env) };
    const child = spawn(program, [...words, '--config', at('stickpin.toml')], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => log[which].push(...String(chunk).trim().split('\n')));
    }
    running.set(which, child);
  };
  const kill = async (which: Which) => {
    const child = running.get(which);
    running.delete(which);
    await endProcess(child, 'SIGKILL');
  };
  const report = () => reportAt(at('run/status.json'));
  const blobs = () => storedBlobs(at('state'));
  return {
    name,
    stick: at('stick/stickpin'),
    address: `${machine.address}:9777`,
    kubeconfig,
    clientCa,
    log,
    configure,
    start: (which) => {
      for (const one of which === undefined ? (['daemon', 'fleet'] as const) : [which]) start(one);
    },
    kill: async (which) => {
      await Promise.all((which === undefined ? (['daemon', 'fleet'] as const) : [which]).map(kill));
    },
    wipeImages: () => {
      rmSync(at('state/images'), { recursive: true, force: true });
      rmSync(at('run/status.json'), { force: true });
    },
    report,
    ready: (timeoutMs = 240_000) =>
      eventually(
        () => {
          const [bundle] = report()?.bundles ?? [];
          const isThere =
            bundle !== undefined && bundle.images.total > 0 && bundle.images.present === bundle.images.total;
          if (!isThere) throw new Error(`${name} is not ready: ${report()?.status}\n${log.fleet.slice(-5).join('\n')}`);
        },
        timeoutMs,
        50,
      ),
    wrongBlobs: () => blobs().filter((file) => digestOf(readFileSync(file)) !== `sha256:${file.split('/').at(-1)}`),
    blobCount: () => blobs().length,
  };
}

function reportAt(path: string): StatusReport | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** All files below a folder that are named by their digest. */
function storedBlobs(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return (
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /^[0-9a-f]{64}$/.test(entry.name))
      // The parts of the mirror are named by what their rows are.
      .filter((entry) => !entry.parentPath.endsWith('/state.parts'))
      .map((entry) => join(entry.parentPath, entry.name))
  );
}

function settingsText(node: {
  readonly at: (path: string) => string;
  readonly machine: Machine;
  readonly kubeconfig: string;
  readonly clientCa: string;
  readonly fleet: string;
  readonly runtime: string | undefined;
  readonly other: string | undefined;
}): string {
  const { at, machine, kubeconfig, clientCa, fleet, other = '' } = node;
  const { runtime = '[runtime]\nkind = "embedded"' } = node;
  return `
[trust]
keys_dir = "${at('keys.d')}"
[media]
detect = false
directories = ["${at('stick')}"]
incoming = "${at('incoming')}"
${runtime}
[registry]
listen = "127.0.0.1:5317"
[preload]
min_free_percent = 0
[paths]
state_dir = "${at('state')}"
run_dir = "${at('run')}"
[fleet]
enabled = true
activate = "each"
listen = "${machine.address}:9777"
kubeconfig = "${kubeconfig}"
client_ca = "${clientCa}"
${fleet}
${other}
`;
}
