import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BenchRuntime, type RuntimeKind, startBenchRuntime } from '../../bench/bench-runtime.ts';
import { hostArch, makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { createAuthority, type TestAuthority } from '../../support/fleet/authority.ts';
import { createNetwork, type Network, networking } from '../../support/fleet/namespaces.ts';
import { makeRealNode, type RealNode } from '../../support/fleet/real-node.ts';
import { have } from '../../support/requirements.ts';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const dist = join(repository, '.cache/fleet-runtimes-dist');
const IMAGES = 3;

const needs = ['root', 'dbus-daemon', 'openssl', 'mmdebstrap', 'skopeo', ...networking] as const;

/** The real programs with runtimes of their own, on machines of a network. No API server runs. */
describe.runIf(have(...needs))('a stick in one node', () => {
  const base = folderForAll();
  const key = sampleKey();
  const nodes: RealNode[] = [];
  const runtimes: BenchRuntime[] = [];
  let network: Network;
  let cluster: TestAuthority;
  let bundle: SampleBundle;

  beforeAll(async () => {
    execFileSync(process.execPath, ['packaging/build.mjs', dist], { cwd: repository });
    cluster = createAuthority(join(base, 'ca'), 'kubernetes');
    network = createNetwork();
    const shared = sampleLayer({ seed: 'shared', sizeBytes: 2 * 1024 * 1024 });
    const images = Array.from({ length: IMAGES }, (_none, at) => ({
      reference: `quay.example.com/fleet/image-${at}:1`,
      image: sampleImage({
        seed: `image-${at}`,
        architecture: hostArch,
        layers: [shared, sampleLayer({ seed: `own-${at}`, sizeBytes: 64 * 1024 })],
      }),
    }));
    bundle = await makeSampleBundle({ dir: join(base, 'made'), keys: [key], images });
  }, 120_000);
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.kill()));
    await Promise.all(runtimes.map((runtime) => runtime.stop()));
    network?.dispose();
  });

  async function make(host: number, kind: RuntimeKind): Promise<RealNode> {
    const name = `worker-${host}`;
    const machine = network.add(host);
    mkdirSync(join(base, `${name}-runtime`));
    const runtime = await startBenchRuntime(kind, join(base, `${name}-runtime`), machine.enter);
    runtimes.push(runtime);
    const peers = [1, 2, 3].filter((other) => other !== host).map((other) => `"10.77.0.${other}"`);
    const node = makeRealNode({
      ...{ name, machine, base, dist, key, runtime },
      certificate: cluster.node(name),
      authority: cluster,
      settings: { fleet: `peers = [${peers.join(', ')}]` },
    });
    nodes.push(node);
    return node;
  }

  it('brings its images, pinned, into CRI-O of one other node and containerd of the next', async () => {
    const one = await make(1, 'containerd');
    const two = await make(2, 'cri-o');
    const three = await make(3, 'containerd');
    cpSync(bundle.path, join(one.stick, basename(bundle.path)), { recursive: true });
    for (const node of nodes) node.start();
    for (const node of nodes) await node.ready();
    for (const node of nodes) {
      await eventually(() =>
        expect(node.report()?.bundles[0]).toMatchObject({ images: { total: IMAGES, pinned: IMAGES } }),
      );
    }
    for (const node of [two, three]) expect(node.log.daemon.join('\n')).toMatch(/"medium":"worker-/);
    for (const runtime of runtimes) expect(await runtime.imageCount()).toBe(IMAGES);
  });
});
