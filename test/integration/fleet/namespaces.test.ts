import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageIds } from '../../../src/platform/message-ids.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { hostArch, makeSampleBundle, type SampleKey, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../support/files/small-disk.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { createAuthority, type TestAuthority, type TestCertificate } from '../../support/fleet/authority.ts';
import { createNetwork, type Machine, type Network, networking } from '../../support/fleet/namespaces.ts';
import { makeRealNode, type RealNode } from '../../support/fleet/real-node.ts';
import type { RogueOrder } from '../../support/fleet/rogue-peer/order.ts';
import { have, program } from '../../support/requirements.ts';

const hasIptables = have(program('iptables', 'apt-get install iptables'));
const repository = fileURLToPath(new URL('../../..', import.meta.url));
const dist = join(repository, '.cache/fleet-dist');
const MiB = 1024 * 1024;
const LAYERS = 6;

/** The real programs on machines of their own. No API server runs. */
describe.runIf(have('root', 'openssl', ...networking, mounting, program('mkfs.ext4', 'apt-get install e2fsprogs')))(
  'one stick for all nodes',
  { timeout: 900_000 },
  () => {
    const base = folderForAll();
    const nodes: RealNode[] = [];
    const rogues: ChildProcess[] = [];
    let network: Network;
    let disk: SmallDisk;
    let cluster: TestAuthority;
    let key: SampleKey;
    let bundle: string;
    let machines: Map<number, Machine>;
    let one: RealNode;
    let two: RealNode;
    let three: RealNode;

    beforeAll(async () => {
      execFileSync(process.execPath, ['packaging/build.mjs', dist], { cwd: repository });
      cluster = createAuthority(join(base, 'ca'), 'kubernetes');
      key = sampleKey();
      network = createNetwork();
      disk = mountSmallDisk('ext4', 64 * MiB);
      machines = new Map();
      const layers = Array.from({ length: LAYERS }, (_, at) =>
        sampleLayer({ seed: `layer-${at}`, sizeBytes: 4 * MiB }),
      );
      const images = [0, 3].map((from) => ({
        reference: `quay.example.com/fleet/image-${from}:1`,
        image: sampleImage({ seed: `image-${from}`, architecture: hostArch, layers: layers.slice(from, from + 3) }),
      }));
      bundle = (await makeSampleBundle({ dir: join(base, 'made'), keys: [key], images })).path;
    }, 600_000);
    afterAll(async () => {
      for (const rogue of rogues) rogue.kill('SIGKILL');
      await Promise.all(nodes.map((node) => node.kill()));
      network?.dispose();
      if (one !== undefined) execFileSync('umount', ['--lazy', one.stick]);
      disk?.dispose();
    });

    function machine(host: number): Machine {
      const known = machines.get(host) ?? network.add(host);
      machines.set(host, known);
      return known;
    }

    function make(host: number, fleet: string, certificate?: TestCertificate): RealNode {
      const name = `worker-${host}`;
      const own = certificate ?? cluster.node(name);
      const node = makeRealNode({
        name,
        machine: machine(host),
        base,
        dist,
        certificate: own,
        authority: cluster,
        key,
        settings: { fleet },
      });
      nodes.push(node);
      return node;
    }

    const peersOf = (...hosts: readonly number[]) => `peers = [${hosts.map((host) => `"10.77.0.${host}"`).join(', ')}]`;
    const nothingWrong = () => expect(nodes.flatMap((node) => node.wrongBlobs())).toEqual([]);

    /** Bytes that were read from the stick's device since it was plugged in. */
    function bytesFromStick(): number {
      const [row = ''] = readFileSync('/proc/self/mountinfo', 'utf8')
        .split('\n')
        .filter((line) => line.includes(` ${disk.path} `));
      const device = row.split(' ')[2];
      return 512 * Number(readFileSync(`/sys/dev/block/${device}/stat`, 'utf8').trim().split(/\s+/)[2]);
    }

    it('is loaded by every node, and read once', async () => {
      one = make(1, peersOf(2, 3));
      two = make(2, peersOf(1, 3));
      three = make(3, peersOf(1, 2));
      cpSync(bundle, join(disk.path, basename(bundle)), { recursive: true });
      execFileSync('mount', ['--bind', disk.path, one.stick]);
      execFileSync('sh', ['-c', 'sync; echo 3 > /proc/sys/vm/drop_caches']);
      const before = bytesFromStick();
      for (const node of [one, two, three]) node.start();
      for (const node of [one, two, three]) await node.ready();
      nothingWrong();
      for (const node of [two, three]) expect(node.log.daemon.join('\n')).toMatch(/"medium":"worker-/);
      for (const node of nodes) expect(node.log.daemon.join('\n')).not.toContain('could not be pulled');
      for (const { log } of [one, two, three]) {
        expect(log.daemon.join('\n')).toContain(messageIds.daemonStarted);
        expect(log.fleet.join('\n')).toContain(messageIds.fleetStarted);
      }
      const size = Number(execFileSync('du', ['-sb', bundle], { encoding: 'utf8' }).split('\t')[0]);
      expect(bytesFromStick() - before).toBeLessThan(1.1 * size);
      for (const node of [one, two, three]) expect(node.log.fleet.join('\n')).not.toContain('is refused');
    });

    it('goes on from the byte when the node that gives is killed in mid-blob', async () => {
      await one.kill();
      await three.kill();
      await two.kill();
      two.wipeImages();
      one.configure(`${peersOf(2, 3)}\nrate = "40 Mbit/s"`);
      one.start();
      await one.ready();
      two.start();
      await eventually(() => expect(two.report()?.progress.doneBytes).toBeGreaterThan(2 * MiB), 180_000, 10);
      await one.kill('fleet');
      const doneBytes = two.report()?.progress.doneBytes ?? 0;
      expect(doneBytes).toBeLessThan(20 * MiB);
      one.start('fleet');
      await two.ready();
      nothingWrong();
    });

    it.runIf(hasIptables)(
      'does not come from a node with a foreign authority or an old certificate, nor to it',
      async () => {
        const foreign = make(4, peersOf(1), createAuthority(join(base, 'ca'), 'kubernetes').node('worker-4'));
        const old = make(5, peersOf(1), cluster.node('worker-5', { fromHours: -48, toHours: -1 }));
        for (const node of [foreign, old]) node.start();
        await eventually(() => {
          const lines = one.log.fleet.filter((line) => line.includes('is refused'));
          expect(lines.filter((line) => line.includes('10.77.0.4')).join()).toContain('no authority of this cluster');
          expect(lines.filter((line) => line.includes('10.77.0.5')).join()).toContain(
            'has a certificate that ended on',
          );
          expect(lines.map((line) => line.includes(messageIds.peerRefused))).toEqual([true, true]);
        }, 180_000);
        await eventually(() => {
          for (const node of [foreign, old]) expect(node.log.fleet.join()).toContain('may refuse the certificate');
        }, 180_000);
        for (const node of [foreign, old]) {
          expect(node.blobCount()).toBe(0);
          expect(node.report()?.bundles ?? []).toEqual([]);
          await node.kill();
        }
      },
    );

    /** A node that was taken over, which repeats what the first one offers. */
    async function startRogue(host: number, way: RogueOrder['way']) {
      const rogueMachine = machine(host);
      const { kubeconfig, clientCa } = make(host, '');
      const listen = `${rogueMachine.address}:9777`;
      const order: RogueOrder = { kubeconfig, clientCa, listen, honest: one.address, way };
      const [ip = '', ...words] = rogueMachine.enter;
      const program = await bundleIntoCache('test/support/fleet/rogue-peer/main.ts', 'rogue-peer');
      const rogue = spawn(ip, [...words, process.execPath, program, JSON.stringify(order)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      rogues.push(rogue);
      let said = '';
      rogue.stdout.on('data', (chunk) => {
        said += String(chunk);
      });
      await eventually(() => expect(said).toContain('listening'), 180_000);
      return {
        said: () => said,
        kill: async () => {
          const ended = once(rogue, 'exit');
          rogue.kill('SIGKILL');
          await ended;
        },
      };
    }

    it.each(['spoil', 'stall'] as const)('is not what a node makes of it that was taken over: %s', async (way) => {
      const host = way === 'spoil' ? 6 : 7;
      const rogue = await startRogue(host + 10, way);
      const node = make(host, peersOf(host + 10));
      node.start();
      await eventually(() => expect(rogue.said()).toContain('asked for /v1/blobs/'), 180_000);
      node.configure(peersOf(host + 10, 1));
      await eventually(() => expect(node.log.fleet.join('\n')).toContain('The settings changed'));
      // Without systemd nobody starts them again.
      await node.kill();
      node.start();
      await node.ready();
      nothingWrong();
      await rogue.kill();
      await node.kill();
    });

    it.runIf(hasIptables)('goes on from the byte at another node when one gives a few bytes a second', async () => {
      const [trickler, relay] = [await startRogue(18, 'trickle'), await startRogue(19, 'relay')];
      const node = make(8, peersOf(18, 19));
      const cut = ['OUTPUT', '-d', '10.77.0.19', '-j', 'REJECT'];
      machine(8).run('iptables', '-A', ...cut);
      node.start();
      await eventually(() => expect(trickler.said()).toContain('asked for /v1/blobs/'), 180_000);
      await eventually(() => expect(node.report()?.progress.doneBytes).toBeGreaterThan(0), 180_000);
      machine(8).run('iptables', '-D', ...cut);
      await node.ready();
      nothingWrong();
      // Below what a minute must bring, and beyond what came at once.
      const starts = [...relay.said().matchAll(/ bytes=(\d+)-/g)].map(([, start]) => Number(start));
      expect(starts.length).toBeGreaterThan(0);
      for (const start of starts) {
        expect(start).toBeGreaterThan(4_096);
        expect(start).toBeLessThan(16 * 1024);
      }
      await Promise.all([trickler.kill(), relay.kill(), node.kill()]);
    });

    it.runIf(hasIptables)('comes over a link that loses every twentieth packet', async () => {
      await two.kill();
      two.wipeImages();
      machine(2).run(
        'iptables',
        '-A',
        'INPUT',
        '-i',
        'eth0',
        '-m',
        'statistic',
        '--mode',
        'random',
        '--probability',
        '0.05',
        '-j',
        'DROP',
      );
      two.start();
      await two.ready();
      machine(2).run('iptables', '-F', 'INPUT');
      nothingWrong();
    });

    it('comes back to all nodes after all images were wiped, from peers that are only remembered', async () => {
      const all = [one, two, three];
      await Promise.all(all.map((node) => node.kill()));
      for (const node of all) {
        node.wipeImages();
        node.configure('');
        expect(node.blobCount()).toBeGreaterThanOrEqual(0);
        node.start();
      }
      for (const node of all) await node.ready();
      nothingWrong();
      for (const node of all)
        expect(statSync(join(base, node.name, 'state-fleet/peers.json')).mode & 0o777).toBe(0o600);
    });
  },
);
