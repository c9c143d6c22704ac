import { readFileSync } from 'node:fs';
import { endianness, uptime } from 'node:os';
import type { SystemBus } from '../dbus/system-bus.ts';
import type { BootTime } from '../domain/model/image.ts';
import type { Clock } from '../platform/clock.ts';
import { busProperty } from './systemd/bus-property.ts';

const GOARCH: Readonly<Partial<Record<NodeJS.Architecture, string>>> = {
  x64: 'amd64',
  ia32: '386',
  arm64: 'arm64',
  arm: 'arm',
  s390x: 's390x',
  riscv64: 'riscv64',
  loong64: 'loong64',
};

/**
 * The GOARCH name of this node, as in OCI platforms and bundles: `amd64`, `arm64`, `ppc64le`,
 * `s390x`.
 */
export function goArch(
  arch: NodeJS.Architecture = process.arch,
  byteOrder: ReturnType<typeof endianness> = endianness(),
): string {
  if (arch === 'ppc64') return byteOrder === 'LE' ? 'ppc64le' : 'ppc64';
  return GOARCH[arch] ?? arch;
}

/**
 * Whether the kernel reports a synchronised clock, by any time service: `NTPSynchronized` of
 * org.freedesktop.timedate1(5). Undefined when timedated does not answer.
 */
export async function isClockSynchronized(bus: SystemBus, signal: AbortSignal): Promise<boolean | undefined> {
  const name = 'org.freedesktop.timedate1';
  try {
    const path = '/org/freedesktop/timedate1';
    const asked = { destination: name, path, iface: name, name: 'NTPSynchronized' };
    return (await busProperty(bus, asked, signal)) === true;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/**
 * How long an answer of timedated is used. No decision needs the exact minute in which the clock
 * becomes synchronised.
 */
const CLOCK_ANSWER_MS = 10 * 60_000;

/**
 * Caches the answer of {@link isClockSynchronized} for ten minutes. Each call starts timedated,
 * which ends half a minute later, and each start adds lines to the journal. A missing answer counts
 * as false and is not cached.
 */
export function rememberClockAnswer(
  ask: (signal: AbortSignal) => Promise<boolean | undefined>,
  clock: Pick<Clock, 'monotonic'>,
): (signal: AbortSignal) => Promise<boolean> {
  let last: { readonly answer: boolean; readonly atMs: number } | undefined;
  return async (signal) => {
    if (last === undefined || clock.monotonic() - last.atMs >= CLOCK_ANSWER_MS) {
      const answer = await ask(signal);
      last = answer === undefined ? undefined : { answer, atMs: clock.monotonic() };
    }
    return last?.answer ?? false;
  };
}

/** The machine's boot id (random(4)) and the time since it booted, including sleep. */
export function bootTime(bootIdFile = '/proc/sys/kernel/random/boot_id'): BootTime {
  return { bootId: readFileSync(bootIdFile, 'utf8').trim(), uptimeMs: Math.round(uptime() * 1000) };
}
