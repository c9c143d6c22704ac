import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ReleaseOrder } from '../../../src/domain/model/roll-out-order.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { hostArch, type SampleKey, sampleKey } from '../bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../bundles/sample-image.ts';
import { type PrivateBus, startPrivateBus } from '../bus/private-bus.ts';
import { startTestCluster, type TestCluster } from '../kubernetes/test-cluster.ts';
import { createNetwork, type Machine, type Network } from './namespaces.ts';
import { makeRealNode, type RealNode } from './real-node.ts';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const dist = join(repository, '.cache/fleet-dist');
const run = promisify(execFile);

interface Member {
  readonly node: RealNode;
  readonly machine: Machine;
  readonly bus: PrivateBus;
}

interface NewNode {
  readonly labels?: Record<string, string>;
  /** Lines of its settings. */
  readonly other?: string;
}

/** The real programs on machines of their own, with the strict API server. */
export class RealCluster implements AsyncDisposable {
  private readonly members = new Map<number, Member>();

  private constructor(
    private readonly base: string,
    private readonly network: Network,
    private readonly cluster: TestCluster,
    private readonly key: SampleKey,
  ) {}

  /** Needs `have('root', 'openssl', 'dbus-daemon', ...networking)`. */
  static async start(base: string): Promise<RealCluster> {
    execFileSync(process.execPath, ['packaging/build.mjs', dist], { cwd: repository });
    const network = createNetwork();
    const cluster = await startTestCluster([], network.join());
    cluster.server.apply(readFileSync(join(repository, 'packaging/node/fleet.yaml'), 'utf8'));
    return new RealCluster(base, network, cluster, sampleKey());
  }

  get server(): TestCluster['server'] {
    return this.cluster.server;
  }

  /** `worker-<host>`, which does not run yet. */
  async add(host: number, { labels = {}, other = '' }: NewNode = {}): Promise<RealNode> {
    const { base, cluster, network, key } = this;
    const name = `worker-${host}`;
    const machine = network.add(host);
    const certificate = cluster.authority.node(name);
    const bus = await startPrivateBus();
    const place = { name, machine, base, dist, certificate, authority: cluster.authority, key, bus: bus.address };
    const node = makeRealNode({ ...place, settings: { fleet: 'peers = ["10.77.0.1", "10.77.0.2"]', other } });
    const text = readFileSync(cluster.kubeconfigOf(name, certificate), 'utf8');
    writeFileSync(node.kubeconfig, text.replaceAll('current.pem', join(cluster.folder, name, 'current.pem')));
    cluster.server.addNode(name, machine.address);
    cluster.server.setByOther(name, { labels });
    this.members.set(host, { node, machine, bus });
    return node;
  }

  node(host: number): RealNode {
    return this.member(host).node;
  }

  machine(host: number): Machine {
    return this.member(host).machine;
  }

  /** What `stickpin` prints on a node. @throws Error when it fails */
  async stickpin(host: number, ...words: readonly string[]): Promise<string> {
    const env = { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: this.member(host).bus.address };
    return (await run(process.execPath, [join(dist, 'cli/main.js'), ...words], { env })).stdout;
  }

  release(host: number, version: string): StatusReport['bundles'][number] | undefined {
    return this.node(host)
      .report()
      ?.bundles.find((bundle) => bundle.version === version);
  }

  /** Ends both processes of a node and starts them again. What it reported before is gone. */
  async restart(host: number): Promise<void> {
    const node = this.node(host);
    await node.kill();
    rmSync(join(this.base, node.name, 'run/status.json'), { force: true });
    node.start();
  }

  /** By the commands that a person runs. @returns its folder */
  createBundle(version: string, order: ReleaseOrder): string {
    const at = (name: string) => join(this.base, `made-${version}`, name);
    const image = sampleImage({ seed: version, architecture: hostArch });
    writeOciLayout(at('layout'), [{ image, names: ['app'] }]);
    writeFileSync(at('order.json'), JSON.stringify(order));
    writeFileSync(at('factory.key'), this.key.privatePem, { mode: 0o600 });
    const bundle = (...words: string[]) =>
      execFileSync(process.execPath, [join(dist, 'cli/main.js'), 'bundle', ...words], { stdio: 'pipe' });
    const sequence = version.split('.').at(-1) ?? '';
    bundle(
      ...['create', '--name', 'ocp', '--version', version, '--arch', hostArch, '--sequence', sequence],
      ...['--image', `quay.example.com/app:1=oci:${at('layout')}:app`, '--order', at('order.json')],
      ...['--out', at('bundle')],
    );
    bundle('sign', at('bundle'), '--key', at('factory.key'));
    return at('bundle');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.members.values()].map(({ node }) => node.kill()));
    for (const { bus } of this.members.values()) await bus[Symbol.asyncDispose]();
    await this.cluster[Symbol.asyncDispose]();
    this.network.dispose();
  }

  private member(host: number): Member {
    const member = this.members.get(host);
    if (member === undefined) throw new Error(`no worker-${host}`);
    return member;
  }
}
