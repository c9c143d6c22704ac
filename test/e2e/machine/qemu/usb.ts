import type { Qmp } from './qmp.ts';
import type { Stick } from './stick.ts';

/** How a stick behaves. */
export interface PlugOptions {
  /**
   * Default `stick`. As a `disc` the image lies in a USB drive for optical media, which is how
   * remote consoles show virtual media.
   */
  readonly as?: 'stick' | 'disc';
  /** Serial number of the stick, by which udev names it; default: one of its own for each plug. */
  readonly serial?: string;
  /** Bytes a second that can be read from it; default as fast as it goes. */
  readonly bytesPerSecond?: number;
  /** 512-byte sectors that answer with an I/O error; default none. */
  readonly badSectors?: readonly number[];
}

/** A stick in the machine's USB port. */
export interface PluggedStick {
  readonly serial: string;
  /**
   * The link under /dev/disk/by-id to the disk or partition with the filesystem, once udev has made
   * it.
   */
  readonly devicePath: string;
  /**
   * Pulls it out, whatever is being read, and returns when QEMU has let go of it. Safe to call
   * twice.
   */
  unplug(): Promise<void>;
}

/** The USB ports of a machine. */
export interface UsbPorts {
  plug(stick: Stick, options?: PlugOptions): Promise<PluggedStick>;
}

/** Plugs sticks into the machine's xHCI controller over QMP; up to eight at once. */
export function createUsbPorts(qmp: Qmp): UsbPorts {
  let plugged = 0;
  return {
    plug: async (stick, options = {}) => {
      plugged += 1;
      const id = `stick${plugged}`;
      const serial = options.serial ?? `SERIAL${plugged}`;
      const chain = blockChain(id, stick, options);
      if (options.bytesPerSecond !== undefined) {
        const limits = { 'bps-read': options.bytesPerSecond };
        await qmp.execute('object-add', { 'qom-type': 'throttle-group', id: `${id}-throttle`, limits });
      }
      for (const node of chain) await qmp.execute('blockdev-add', node);
      await addDevice(qmp, { id, serial, drive: chain.at(-1)?.['node-name'] ?? '', as: options.as ?? 'stick' });
      let unplugged: Promise<void> | undefined;
      return {
        serial,
        devicePath: devicePath(serial, stick, options),
        unplug: () => {
          unplugged ??= unplug(qmp, id, chain, options);
          return unplugged;
        },
      };
    },
  };
}

async function addDevice(qmp: Qmp, device: { id: string; serial: string; drive: string; as: 'stick' | 'disc' }) {
  const { id, serial, drive } = device;
  const bus = 'xhci.0';
  if (device.as === 'stick') {
    await qmp.execute('device_add', { driver: 'usb-storage', id, drive, serial, bus, removable: true });
    return;
  }
  // A bridge from USB to SCSI is shown to the guest only when its drive is in place.
  await qmp.execute('device_add', { driver: 'usb-bot', id, serial, bus });
  await qmp.execute('device_add', { driver: 'scsi-cd', id: `${id}-drive`, bus: `${id}.0`, drive });
  await qmp.execute('qom-set', { path: `/machine/peripheral/${id}`, property: 'attached', value: true });
}

function devicePath(serial: string, stick: Stick, options: PlugOptions): string {
  const model = options.as === 'disc' ? 'CD-ROM' : 'HARDDISK';
  const suffix = stick.partition === undefined ? '' : `-part${stick.partition}`;
  return `/dev/disk/by-id/usb-QEMU_QEMU_${model}_${serial}-0:0${suffix}`;
}

type BlockNode = Readonly<Record<string, unknown>> & { readonly 'node-name': string };

/**
 * Block nodes from the file upwards: file, then faults, then the brake, then the format that the
 * device uses.
 */
function blockChain(id: string, stick: Stick, options: PlugOptions): BlockNode[] {
  const chain: BlockNode[] = [{ driver: 'file', 'node-name': `${id}-file`, filename: stick.image }];
  const below = (): string => chain.at(-1)?.['node-name'] ?? '';
  const bad = options.badSectors ?? [];
  if (bad.length > 0) {
    const errors = bad.map((sector) => ({ event: 'none', iotype: 'read', errno: 5, sector, once: false }));
    chain.push({ driver: 'blkdebug', 'node-name': `${id}-faults`, image: below(), 'inject-error': errors });
  }
  if (options.bytesPerSecond !== undefined) {
    const group = { 'throttle-group': `${id}-throttle`, file: below() };
    chain.push({ driver: 'throttle', 'node-name': `${id}-brake`, ...group });
  }
  chain.push({ driver: 'raw', 'node-name': `${id}-disk`, file: below() });
  return chain;
}

async function unplug(qmp: Qmp, id: string, chain: readonly BlockNode[], options: PlugOptions): Promise<void> {
  const gone = qmp.nextEvent('DEVICE_DELETED', (data) => data.device === id, 300_000);
  await Promise.all([gone, qmp.execute('device_del', { id })]);
  for (const node of chain.toReversed()) await qmp.execute('blockdev-del', { 'node-name': node['node-name'] });
  if (options.bytesPerSecond !== undefined) await qmp.execute('object-del', { id: `${id}-throttle` });
}
