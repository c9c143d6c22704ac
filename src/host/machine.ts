import { readFileSync } from 'node:fs';
import { endianness, uptime } from 'node:os';
import type { BootTime } from '../domain/runtime-container.ts';
import { unwrapVariant } from '../platform/message-bus.ts';
import type { SystemBus } from './system-bus.ts';
import { PROPERTIES } from './systemd-names.ts';

const GOARCH: Readonly<Partial<Record<NodeJS.Architecture, string>>> = {
  x64: 'amd64',
  ia32: '386',
  arm64: 'arm64',
  arm: 'arm',
  s390x: 's390x',
  riscv64: 'riscv64',
  loong64: 'loong64',
};

/** The GOARCH name of this node, as OCI platforms and bundles name it: `amd64`, `arm64`, `ppc64le`, `s390x`. */
export function goArch(
  arch: NodeJS.Architecture = process.arch,
  byteOrder: ReturnType<typeof endianness> = endianness(),
): string {
  if (arch === 'ppc64') return byteOrder === 'LE' ? 'ppc64le' : 'ppc64';
  return GOARCH[arch] ?? arch;
}

/**
 * Whether the kernel says that the clock is synchronised, whoever does it: `NTPSynchronized` of org.freedesktop.timedate1(5). False when
 * timedated can't be asked: then nothing is known of the clock.
 */
export async function isClockSynchronized(bus: SystemBus, signal: AbortSignal): Promise<boolean> {
  const name = 'org.freedesktop.timedate1';
  try {
    const [value] = await bus.call(
      {
        destination: name,
        path: '/org/freedesktop/timedate1',
        interface: PROPERTIES,
        member: 'Get',
        signature: 'ss',
        body: [name, 'NTPSynchronized'],
      },
      signal,
    );
    return unwrapVariant(value) === true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** The machine's boot id (random(4)) and the time since it booted, sleep included. */
export function bootTime(bootIdFile = '/proc/sys/kernel/random/boot_id'): BootTime {
  return { bootId: readFileSync(bootIdFile, 'utf8').trim(), uptimeMs: Math.round(uptime() * 1000) };
}
