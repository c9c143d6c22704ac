import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hostArch, type SampleKey, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { createNetwork, type Machine, type Network, networking } from '../../support/fleet/namespaces.ts';
import { makeRealNode, type RealNode } from '../../support/fleet/real-node.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { have, program } from '../../support/requirements.ts';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const dist = join(repository, '.cache/fleet-dist');
const HOSTS = [1, 2, 3, 4];
/** Node 1 is the control plane, and node 3 the canary. */
const LABELS: Readonly<Record<number, Record<string, string>>> = {
  1: { 'node-role.kubernetes.io/control-plane': '', zone: 'a' },
  2: { zone: 'b' },
  3: { zone: 'b', canary: 'true' },
  4: { zone: 'a' },
};
const ORDER = {
  controlPlane: 'last',
  groups: ['zone=a', 'zone=b'],
  canary: { labels: 'canary=true', soakMinutes: 0 },
  maxUnavailable: 1,
};

/** The real programs on machines of their own, with the strict API server. */
describe.runIf(have('root', 'openssl', ...networking, program('iptables', 'apt-get install iptables')))(
  'a release with an order',
  () => {
    const base = folderForAll();
    const nodes = new Map<number, RealNode>();
    const machines = new Map<number, Machine>();
    let network: Network;
    let cluster: TestCluster;
    let key: SampleKey;

    beforeAll(async () => {
      execFileSync(process.execPath, ['packaging/build.mjs', dist], { cwd: repository });
      network = createNetwork();
      key = sampleKey();
      cluster = await startTestCluster([], network.join());
      cluster.server.apply(readFileSync(join(repository, 'packaging/node/fleet.yaml'), 'utf8'));
      for (const host of HOSTS) makeNode(host);
    }, 120_000);
    afterAll(async () => {
      await Promise.all([...nodes.values()].map((node) => node.kill()));
      await cluster?.[Symbol.asyncDispose]();
      network?.dispose();
    });

    function makeNode(host: number): void {
      const name = `worker-${host}`;
      const machine = network.add(host);
      const certificate = cluster.authority.node(name);
      const place = { name, machine, base, dist, certificate, authority: cluster.authority, key };
      const node = makeRealNode({ ...place, settings: { fleet: 'peers = ["10.77.0.1", "10.77.0.2"]' } });
      const text = readFileSync(cluster.kubeconfigOf(name, certificate), 'utf8');
      writeFileSync(node.kubeconfig, text.replaceAll('current.pem', join(cluster.folder, name, 'current.pem')));
      // A folder without a bundle would be the first thing that STATUS names.
      const settings = join(base, name, 'stickpin.toml');
      if (host === 3) writeFileSync(settings, readFileSync(settings, 'utf8').replace(/^directories = .*$/m, ''));
      cluster.server.addNode(name, machine.address);
      cluster.server.setByOther(name, { labels: LABELS[host] ?? {} });
      machines.set(host, machine);
      nodes.set(host, node);
    }

    const node = (host: number) => nodes.get(host) as RealNode;
    const release = (host: number, version: string) =>
      node(host)
        .report()
        ?.bundles.find((bundle) => bundle.version === version);
    const activatedAt = (host: number, version: string) => release(host, version)?.activatedAt;

    /** By the commands that a person runs. */
    function createBundle(version: string): string {
      const at = (name: string) => join(base, `made-${version}`, name);
      const image = sampleImage({ seed: version, architecture: hostArch });
      writeOciLayout(at('layout'), [{ image, names: ['app'] }]);
      writeFileSync(at('order.json'), JSON.stringify(ORDER));
      writeFileSync(at('factory.key'), key.privatePem, { mode: 0o600 });
      const run = (...words: string[]) =>
        execFileSync(process.execPath, [join(dist, 'cli/main.js'), 'bundle', ...words]);
      const sequence = version.split('.').at(-1) ?? '';
      run(
        ...['create', '--name', 'ocp', '--version', version, '--arch', hostArch, '--sequence', sequence],
        ...['--image', `quay.example.com/app:1=oci:${at('layout')}:app`, '--order', at('order.json')],
        ...['--out', at('bundle')],
      );
      run('sign', at('bundle'), '--key', at('factory.key'));
      return at('bundle');
    }

    it('is activated by labels: the canary, the groups, the control plane; not on a cordoned node', async () => {
      cluster.server.cordon('worker-4', true);
      const bundle = createBundle('1.0.1');
      cpSync(bundle, join(node(2).stick, 'bundle'), { recursive: true });
      for (const host of HOSTS) node(host).start();
      await eventually(() => expect(activatedAt(1, '1.0.1')).toBeDefined(), 100_000);
      const times = [3, 2, 1].map((host) => activatedAt(host, '1.0.1') ?? '');
      expect(times).toEqual(times.toSorted());
      expect(new Set(times).size).toBe(3);
      await eventually(() => {
        const [hold] = release(4, '1.0.1')?.activationHolds ?? [];
        expect(hold).toMatchObject({ code: 'fleet/cordoned' });
      }, 30_000);
      expect(activatedAt(4, '1.0.1')).toBeUndefined();
      cluster.server.cordon('worker-4', false);
      await eventually(() => expect(activatedAt(4, '1.0.1')).toBeDefined(), 60_000);
    }, 180_000);

    it('names the release, the giver and what lacks on a node that does not reach the giver', async () => {
      const cut = ['INPUT', '-s', machines.get(3)?.address ?? '', '-p', 'tcp', '--dport', '9777', '-j', 'REJECT'];
      for (const host of [1, 2, 4]) machines.get(host)?.run('iptables', '-A', ...cut);
      cpSync(createBundle('1.0.2'), join(node(2).stick, 'bundle-2'), { recursive: true });
      for (const host of [1, 2, 4]) {
        await eventually(() => expect(release(host, '1.0.2')?.images.present).toBe(1), 60_000);
      }
      const where = /1\.0\.2.*worker-[124]/;
      await eventually(() => {
        const report = node(3).report();
        expect(report?.wanted).toMatchObject([
          { name: 'ocp', version: '1.0.2', message: expect.stringMatching(where) },
        ]);
        expect(report?.status).toMatch(where);
      }, 120_000);
      await eventually(() => {
        const health = cluster.server.node('worker-3').status.conditions.find(({ type }) => type === 'StickpinHealthy');
        expect(health).toMatchObject({ status: 'False', reason: 'StickWanted' });
        expect(String(health?.message)).toMatch(where);
        const events = cluster.server.events.filter(({ involvedObject }) => involvedObject.name === 'worker-3');
        expect(events.map(({ message }) => message).join('\n')).toMatch(where);
      }, 90_000);
      for (const host of [1, 2, 4]) machines.get(host)?.run('iptables', '-F', 'INPUT');
      await eventually(() => expect(release(3, '1.0.2')?.images.present).toBe(1), 60_000);
    }, 300_000);
  },
);
