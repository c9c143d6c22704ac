import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { networking } from '../../support/fleet/namespaces.ts';
import { RealCluster } from '../../support/fleet/real-cluster.ts';
import { have, program } from '../../support/requirements.ts';

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
  settleSeconds: 0,
} as const;

/** The real programs on machines of their own, with the strict API server. */
describe.runIf(have('root', 'openssl', 'dbus-daemon', ...networking, program('iptables', 'apt-get install iptables')))(
  'a release with an order',
  () => {
    const base = folderForAll();
    let cluster: RealCluster;

    beforeAll(async () => {
      cluster = await RealCluster.start(base);
      for (const host of HOSTS) await cluster.add(host, { labels: LABELS[host] ?? {} });
      // A folder without a bundle would be the first thing that STATUS names.
      const settings = join(base, 'worker-3', 'stickpin.toml');
      writeFileSync(settings, readFileSync(settings, 'utf8').replace(/^directories = .*$/m, ''));
    }, 120_000);
    afterAll(() => cluster[Symbol.asyncDispose]());

    const node = (host: number) => cluster.node(host);
    const release = (host: number, version: string) => cluster.release(host, version);
    const activatedAt = (host: number, version: string) => release(host, version)?.activatedAt;

    it('is activated by labels: the canary, the groups, the control plane; not on a cordoned node', async () => {
      cluster.server.cordon('worker-4', true);
      const bundle = cluster.createBundle('1.0.1', ORDER);
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
      const cut = ['INPUT', '-s', cluster.machine(3).address, '-p', 'tcp', '--dport', '9777', '-j', 'REJECT'];
      for (const host of [1, 2, 4]) cluster.machine(host).run('iptables', '-A', ...cut);
      cpSync(cluster.createBundle('1.0.2', ORDER), join(node(2).stick, 'bundle-2'), { recursive: true });
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
      for (const host of [1, 2, 4]) cluster.machine(host).run('iptables', '-F', 'INPUT');
      await eventually(() => expect(release(3, '1.0.2')?.images.present).toBe(1), 60_000);
    }, 300_000);
  },
);
