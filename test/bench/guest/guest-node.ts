import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
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
  /**
   * Starts stickpin and returns when it waits for media. What STATUS says from now on is noted: see
   * {@link GuestNode.statusAt}.
   */
  startStickpin(): Promise<void>;
  /**
   * Milliseconds since the epoch on the guest's clock at which STATUS held this text for the first
   * time, or undefined.
   */
  statusAt(text: string): Promise<number | undefined>;
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

const STATUS_LOG = '/run/bench-status';
const SECTOR_BYTES = 512;
const SLOW_MS = 300_000;

/**
 * Systemd tells of each change of STATUS on the bus, and `busctl` notes when: nobody has to ask,
 * which would cost the emulated processor time.
 */
const noteStatus = [
  'systemd-run --quiet --collect --unit=bench-status',
  `--property=StandardOutput=truncate:${STATUS_LOG}`,
  'busctl --system monitor --json=short',
  `"--match=type='signal',interface='org.freedesktop.DBus.Properties',path='/org/freedesktop/systemd1/unit/stickpin_2eservice'"`,
].join(' ');

/**
 * Installs stickpin, which trusts `key`, beside containerd on a machine. `scratch` is a folder of
 * the host.
 */
export async function prepareGuestNode(machine: Machine, key: SampleKey, scratch: string): Promise<GuestNode> {
  // As seen from the built bench, which lies one folder deeper than this file.
  const repository = fileURLToPath(new URL('../../../../', import.meta.url));
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
      await slow('systemctl stop bench-status.service 2> /dev/null; systemctl start stickpin.service');
      const waits = 'systemctl show --property=StatusText --value stickpin | grep "Waiting for a stick"';
      await machine.untilOutput('stickpin to wait for media', waits, { timeoutMs: SLOW_MS });
      await slow(noteStatus);
    },
    statusAt: async (text) => {
      const found = await machine.run(`grep --max-count=1 --fixed-strings '${text}' ${STATUS_LOG}`);
      if (found.exitCode !== 0) return undefined;
      return (JSON.parse(found.stdout) as { 'timestamp-realtime': number })['timestamp-realtime'] / 1000;
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
