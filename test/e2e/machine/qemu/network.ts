import { freePort } from '../../../support/free-port.ts';
import type { Qmp } from './qmp.ts';

/** One end of a cable between two machines. */
export interface CableEnd {
  /** A Unix socket of the host that both ends name. */
  readonly socket: string;
  /** One end is plugged in first and listens; the other one connects to it. */
  readonly role: 'first' | 'second';
}

/** The name of the interface in the guest (`net.ifnames=0`). */
const INTERFACE = 'usb0';

/**
 * Plugs a USB network adapter into the machine with one end of a cable. PCI devices can't be
 * plugged into a machine that runs, and a saved machine has no network.
 */
export async function plugCable(qmp: Qmp, { socket, role }: CableEnd): Promise<void> {
  const isFirst = role === 'first';
  await plugAdapter(qmp, { type: 'stream', server: isFirst, addr: { type: 'unix', path: socket } }, isFirst ? 1 : 2);
}

/** The address of a machine whose port is forwarded: QEMU expects it. */
export const forwardedAddress = '10.0.2.15/24';

/** Plugs in an adapter by which only the host reaches the port. Returns the host's, on loopback. */
export async function forwardPort(qmp: Qmp, guestPort: number): Promise<number> {
  const port = await freePort();
  const hostfwd = [{ str: `tcp:127.0.0.1:${port}-:${guestPort}` }];
  await plugAdapter(qmp, { type: 'user', restrict: true, hostfwd }, 3);
  return port;
}

async function plugAdapter(qmp: Qmp, netdev: Readonly<Record<string, unknown>>, number: number): Promise<void> {
  await qmp.execute('netdev_add', { ...netdev, id: 'cable' });
  const mac = `52:54:00:00:00:0${number}`;
  await qmp.execute('device_add', { driver: 'usb-net', id: 'adapter', netdev: 'cable', bus: 'xhci.0', mac });
}

/** A shell command that waits for the adapter and gives it an address, as `10.9.0.1/24`. */
export function addressCommand(address: string): string {
  const find = `until name=$(ls /sys/class/net | grep -E '^(${INTERFACE}|eth0)$'); do sleep 0.2; done`;
  return `${find}; busybox ip address add ${address} dev "$name" && busybox ip link set "$name" up`;
}
