import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { createAuthority, type TestAuthority } from '../support/fleet/authority.ts';
import { layKubeletFiles } from '../support/fleet/kubelet-files.ts';
import { execute } from '../support/rootfs/execute.ts';
import { describeMachine } from './machine/describe-machine.ts';
import type { Machine } from './machine/machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { makeStick } from './machine/qemu/stick.ts';

const MIB = 1024 * 1024;

/** What the link loses and how long it takes, each way. */
const POOR_LINK = 'netem delay 50ms loss 5%';

/** Two nodes on one poor cable, with certificates of one cluster, and no API server. */
describeMachine('a stick in the first of two nodes', 'installed', (first) => {
  describeMachine('and none in the second', 'installed', (second) => {
    const nodes = [
      { name: 'worker-1', machine: first, address: '10.9.0.1', other: '10.9.0.2', role: 'first' as const },
      { name: 'worker-2', machine: second, address: '10.9.0.2', other: '10.9.0.1', role: 'second' as const },
    ];
    const key = sampleKey('factory-2026');
    const directory = folderForAll();
    let bundle: SampleBundle;
    let authority: TestAuthority;

    beforeAll(async () => {
      authority = createAuthority(directory, 'kubernetes');
      const layers = ['a', 'b'].map((seed) => sampleLayer({ seed, sizeBytes: MIB }));
      bundle = await makeSampleBundle({
        dir: join(directory, 'stick/stickpin'),
        keys: [key],
        images: layers.map((layer, at) => ({
          reference: `quay.example.com/ocp/part-${at}:4.13.7`,
          image: sampleImage({ seed: `image-${at}`, layers: [layer] }),
        })),
      });
      for (const { machine, address, role } of nodes) {
        await machine().connect({ socket: join(directory, 'cable.sock'), role }, `${address}/24`);
        const device = `$(ip -brief address show to ${address} | cut -d " " -f 1)`;
        await machine().output(`modprobe sch_netem && tc qdisc replace dev ${device} root ${POOR_LINK}`);
      }
    });

    /** The files of a kubelet, and both services. */
    async function start({ name, machine, address, other }: (typeof nodes)[number]): Promise<void> {
      await layFiles(machine(), name);
      await machine().output('systemctl start containerd.service');
      await startInstalled(machine(), {
        keys: { 'factory-2026': key.publicPem },
        configuration: `[fleet]\nenabled = true\nlisten = "${address}"\npeers = ["${other}"]\n`,
      });
      await machine().output('systemctl enable --now stickpin-fleet.service');
    }

    async function layFiles(machine: Machine, name: string): Promise<void> {
      const { root } = layKubeletFiles(join(directory, name), authority.node(name), authority);
      const tar = join(directory, `${name}.tar`);
      await execute(['tar', '--create', '--dereference', '--file', tar, '--directory', root, '.']);
      await machine.output(`tar --extract --no-same-owner --file ${await machine.share(tar)} --directory /`);
    }

    /** A time of a node by the host's clock, as exactly as the node's clock can be read. */
    async function hostTimes({ machine }: (typeof nodes)[number], time = '') {
      const earliest = Date.now();
      const guest = Number(await machine().output('date +%s%3N'));
      const passed = guest - Date.parse(time);
      return { atLeast: earliest - passed, atMost: Date.now() - passed };
    }

    test('both load it, and activate it one after the other', async () => {
      await Promise.all(nodes.map(start));
      const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'stick') });
      await first().plug(stick);
      const times = [];
      for (const one of nodes) {
        const report = await stickpinOn(one.machine).untilPinned('activated', bundle.contents.images.length);
        times.push(await hostTimes(one, report.bundles[0]?.activatedAt));
      }
      const [before, after] = times;
      expect(after?.atMost).toBeGreaterThan(before?.atLeast ?? Number.NaN);
      await expect
        .poll(async () => (await stickpinOn(second).journal()).map(({ MESSAGE }) => MESSAGE).join('\n'))
        .toContain('from worker-1');
      expect(await first().output('tc -statistics qdisc show')).toMatch(/qdisc netem .*\n Sent .*\(dropped [1-9]/);
    });

    test('both know it, and the fleet process says so', async () => {
      for (const { machine } of nodes) {
        const waited = await machine().output('stickpin fleet wait ocp@4.13.7 --for activated --timeout "9 min"');
        expect(waited).toBe('ocp@4.13.7 is activated on all nodes');
      }
      for (const row of [/worker-1 \(this\) +ocp 4\.13\.7 +activated/, /worker-2 +ocp 4\.13\.7 +activated/]) {
        await expect.poll(() => first().output('stickpin fleet status')).toMatch(row);
      }
    });

    const unit = (property: string) =>
      second().output(`systemctl show --property=${property} --value stickpin-fleet.service`);

    test('the fleet process takes other settings, and systemd has not to start it again', async () => {
      const pid = await unit('MainPID');
      for (const most of [3, 4]) {
        const since = await second().output('date +%s');
        await second().putFile('/etc/stickpin/stickpin.toml.d/90-test.toml', `[fleet]\nmax_clients = ${most}\n`);
        const started = `journalctl -u stickpin-fleet --since @${since} -o cat --grep 'fleet process started'`;
        await second().untilOutput('the new settings to be in force', started);
      }
      expect([await unit('MainPID'), await unit('NRestarts'), await unit('ActiveState')]).toEqual([pid, '0', 'active']);
    });

    test('the fleet process that hangs is started again by the watchdog', async () => {
      const dropIns = '/run/systemd/system/stickpin-fleet.service.d';
      await second().output(`mkdir -p ${dropIns}`);
      await second().putFile(`${dropIns}/watchdog.conf`, '[Service]\nWatchdogSec=30\n');
      await second().output('systemctl daemon-reload; systemctl restart stickpin-fleet.service');
      const pid = await unit('MainPID');
      await second().output(`kill -STOP ${pid}`);
      const isAnother = `pid=$(systemctl show -P MainPID stickpin-fleet) && test "$pid" -gt 0 && test "$pid" != ${pid}`;
      await second().untilOutput('the restart', `${isAnother} && systemctl is-active stickpin-fleet`);
      expect(await unit('NRestarts')).not.toBe('0');
      await expect.poll(() => second().output('journalctl -u stickpin-fleet -o cat')).toContain('Watchdog timeout');
      await second().output(`rm -r ${dropIns}; systemctl daemon-reload`);
    });
  });
});
