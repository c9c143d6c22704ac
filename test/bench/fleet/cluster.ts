import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { createAuthority, type TestAuthority } from '../../support/fleet/authority.ts';
import type { Machine } from '../../support/fleet/namespaces.ts';
import { makeRealNode, type RealNode, type RealNodeOptions } from '../../support/fleet/real-node.ts';
import { serviceFlags } from '../daemon-process.ts';
import { layeredImages } from '../preload/layered-images.ts';

/** What the nodes of a bench share. */
export interface BenchCluster {
  readonly bundle: SampleBundle;
  /** Of all its blobs. */
  readonly sizeBytes: number;
  readonly base: string;
  readonly authority: TestAuthority;
  /** A node with a name and folders of its own, which is not started. */
  node(host: number, machine: Machine, settings?: RealNodeOptions['settings']): RealNode;
  /** Puts the bundle on the node's stick. */
  plug(node: RealNode): void;
  /** The process id of its fleet process. */
  fleetPid(node: RealNode): number;
  dispose(): Promise<void>;
}

/** Makes a cluster around one bundle. The programs are those of `dist/`. */
export async function makeCluster(images: Parameters<typeof layeredImages>[0]): Promise<BenchCluster> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-fleet-bench-'));
  const authority = createAuthority(join(base, 'ca'), 'kubernetes');
  const key = sampleKey();
  const bundle = await makeSampleBundle({ dir: join(base, 'made'), keys: [key], images: layeredImages(images) });
  let made = 0;
  return {
    bundle,
    base,
    authority,
    sizeBytes: Object.values(bundle.contents.layers).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    node: (host, machine, settings = {}) => {
      made += 1;
      const name = `worker-${host}`;
      const certificate = authority.node(name);
      const own = join(base, `run-${made}`);
      const flags = { daemon: serviceFlags(), fleet: serviceFlags('stickpin-fleet') };
      const place = { machine, base: own, dist: resolve('dist') };
      return makeRealNode({ name, ...place, certificate, authority, key, settings, flags });
    },
    plug: ({ stick }) => cpSync(bundle.path, join(stick, basename(bundle.path)), { recursive: true }),
    fleetPid: ({ kubeconfig }) => pidOf('fleet/main.js', kubeconfig.slice(0, kubeconfig.indexOf('/root/'))),
    dispose: async () => rmSync(base, { recursive: true, force: true }),
  };
}

/** Limits what a machine sends. @param mbit million bits a second */
export function limitTo(machine: Machine | undefined, mbit: number): void {
  machine?.run(
    'tc',
    'qdisc',
    'add',
    'dev',
    'eth0',
    'root',
    'tbf',
    'rate',
    `${mbit}mbit`,
    'burst',
    '256kb',
    'latency',
    '200ms',
  );
}

/** From the first adoption of the bundle on one of the nodes until all of them have every image. */
export async function preloadMs(nodes: readonly RealNode[]): Promise<number> {
  const bundles = await eventually(() => {
    const all = nodes.flatMap((node) => node.report()?.bundles.slice(0, 1) ?? []);
    // The last image is there a moment before that is noted.
    if (all.some(({ readyAt }) => readyAt === undefined)) throw new Error('a node does not say since when it is ready');
    return all;
  }, 30_000);
  const times = (which: 'adoptedAt' | 'readyAt') => bundles.map((bundle) => Date.parse(bundle[which] ?? ''));
  return Math.max(...times('readyAt')) - Math.min(...times('adoptedAt'));
}

function pidOf(program: string, folder: string): number {
  const found = readdirSync('/proc').find((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const words = commandOf(pid);
    return (
      words[0]?.endsWith('node') === true &&
      words.some((word) => word.endsWith(program)) &&
      words.at(-1)?.startsWith(folder)
    );
  });
  if (found === undefined) throw new Error(`no ${program} runs for ${folder}`);
  return Number(found);
}

function commandOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      .split('\0')
      .filter((word) => word !== '');
  } catch {
    return [];
  }
}
