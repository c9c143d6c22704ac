import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageIds } from '../../../src/platform/message-ids.ts';
import type { Machine } from '../../e2e/machine/machine.ts';
import { installPackage } from '../../e2e/machine/product/install-package.ts';
import type { Stick } from '../../e2e/machine/qemu/stick.ts';
import type { PluggedStick } from '../../e2e/machine/qemu/usb.ts';
import { bundleProgram } from '../../support/bundles/bundle-program.ts';
import type { SampleKey } from '../../support/bundles/sample-bundle.ts';
import { makePackage } from '../../support/packages/make-packages.ts';

/** A node in the guest, in the states that a measurement begins with. */
export interface GuestNode {
  readonly machine: Machine;
  /** Path of `guest-puller.ts` in the guest, ready to be run with `node`. */
  readonly puller: string;
  /** An empty containerd that runs; stickpin doesn't, and knows nothing. */
  startAnew(): Promise<void>;
  /** Starts stickpin and returns when it waits for media. */
  startStickpin(): Promise<void>;
  /**
   * Milliseconds since the epoch on the guest's clock at which stickpin reported a release as ready
   * since it was started, or undefined.
   */
  readyAt(): Promise<number | undefined>;
  /** Plugs the stick in, throttled, and returns when udev has made its device. */
  plug(stick: Stick, bytesPerSecond: number): Promise<PluggedStick>;
  /** What was read from the stick since it was plugged in, and how long reads were under way. */
  readOf(plugged: PluggedStick): Promise<StickUse>;
}

/** The kernel's count for the whole disk (Documentation/block/stat). */
export interface StickUse {
  readonly readBytes: number;
  /** While at least one read was under way. */
  readonly busyMs: number;
}

const READY_LOG = '/run/bench-ready';
const SECTOR_BYTES = 512;
const SLOW_MS = 300_000;

/** Notes the event as it comes: a question each second would cost the emulated processor time. */
const noteReady = [
  'systemd-run --quiet --collect --unit=bench-ready',
  `--property=StandardOutput=truncate:${READY_LOG}`,
  `journalctl --follow --lines=0 --output=json MESSAGE_ID=${messageIds.bundleReady}`,
].join(' ');

/**
 * Installs stickpin, which trusts `key`, beside containerd on a machine. `scratch` is a folder of
 * the host.
 */
export async function prepareGuestNode(machine: Machine, key: SampleKey, scratch: string): Promise<GuestNode> {
  const repository = fileURLToPath(new URL('../../../', import.meta.url));
  const deb = await makePackage('deb', scratch);
  await installPackage(machine, deb, { keys: { [key.name]: key.publicPem }, start: false });
  const program = join(scratch, 'puller.cjs');
  await bundleProgram(join(repository, 'test/bench/guest/guest-puller.ts'), program);
  const slow = (command: string) => machine.output(command, { timeoutMs: SLOW_MS });
  return {
    machine,
    puller: await machine.share(program),
    startAnew: async () => {
      await slow('systemctl stop stickpin.service stickpin-registry.socket containerd.service');
      await slow('rm -rf /var/lib/containerd /var/lib/stickpin /etc/containerd/certs.d/*');
      await slow('systemctl start containerd.service && sync && echo 3 > /proc/sys/vm/drop_caches');
    },
    startStickpin: async () => {
      await slow('systemctl stop bench-ready.service 2> /dev/null; systemctl start stickpin.service');
      const waits = `stickpin status --json | grep '"action": *"none"'`;
      await machine.untilOutput('stickpin to wait for media', waits, { timeoutMs: SLOW_MS });
      await slow(noteReady);
    },
    readyAt: async () => {
      const { stdout } = await machine.run(`head -n 1 ${READY_LOG}`);
      if (stdout.trim() === '') return undefined;
      return Number((JSON.parse(stdout) as Record<string, string>).__REALTIME_TIMESTAMP) / 1000;
    },
    plug: async (stick, bytesPerSecond) => {
      const plugged = await machine.plug(stick, { bytesPerSecond });
      const { devicePath } = plugged;
      await machine.untilOutput('the stick to show up', `test -b ${devicePath}`);
      return plugged;
    },
    readOf: async ({ devicePath }) => {
      const partition = `$(realpath /sys/class/block/$(basename $(realpath ${devicePath})))`;
      const fields = (await machine.output(`cat ${partition}/../stat`)).trim().split(/\s+/).map(Number);
      return { readBytes: (fields[2] ?? 0) * SECTOR_BYTES, busyMs: fields[9] ?? 0 };
    },
  };
}
