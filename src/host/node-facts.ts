import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { endianness, uptime } from 'node:os';
import type { BootTime } from '../domain/model/image.ts';
import type { NodeFacts } from '../domain/model/machine.ts';
import { parseMachineId } from '../domain/model/rollout.ts';
import { UTC } from '../domain/model/windows.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import { BUILT_AT } from '../platform/version.ts';
import type { SystemBus } from './bus/system-bus.ts';
import { busProperty } from './units.ts';

/** machine-id(5), localtime(5), and the folders that kubelets keep. */
const FILES = {
  machineId: '/etc/machine-id',
  localTime: '/etc/localtime',
  kubelet: ['/var/lib/kubelet', '/var/lib/k0s/kubelet'],
};

/** A file that can't be read counts as absent. */
export function nodeFacts(files: Readonly<typeof FILES> = FILES): NodeFacts {
  const { machineId, localTime, kubelet } = files;
  const hasKubelet = kubelet.some((folder) => existsSync(folder));
  return { builtAt: BUILT_AT, machineId: machineIdIn(machineId), timeZone: zoneOf(localTime), hasKubelet };
}

function machineIdIn(path: string): string | undefined {
  try {
    return parseMachineId(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Reads the link `/etc/localtime` (localtime(5)). If there is no link, the zone is the one that
 * Node read from the file, else UTC.
 */
function zoneOf(path: string): string {
  let target: string;
  try {
    target = readlinkSync(path);
  } catch (error) {
    const isFile = systemCodeOf(error) === 'EINVAL';
    return isFile ? new Intl.DateTimeFormat().resolvedOptions().timeZone : UTC;
  }
  const [, name = UTC] = /\/zoneinfo\/(?:posix\/)?(.+)$/.exec(target) ?? [];
  return name;
}

const GOARCH: Readonly<Partial<Record<NodeJS.Architecture, string>>> = {
  x64: 'amd64',
  ia32: '386',
  arm64: 'arm64',
  arm: 'arm',
  s390x: 's390x',
  riscv64: 'riscv64',
  loong64: 'loong64',
};

/** The name in OCI platforms and bundles: `amd64`, `arm64`, `ppc64le`, `s390x`. */
export function goArch(
  arch: NodeJS.Architecture = process.arch,
  byteOrder: ReturnType<typeof endianness> = endianness(),
): string {
  if (arch === 'ppc64') return byteOrder === 'LE' ? 'ppc64le' : 'ppc64';
  return GOARCH[arch] ?? arch;
}

/**
 * Whether any time service synchronized it: `NTPSynchronized` of org.freedesktop.timedate1(5).
 * Returns undefined when timedated does not answer.
 */
export async function isClockSynchronized(bus: SystemBus, signal: AbortSignal): Promise<boolean | undefined> {
  const name = 'org.freedesktop.timedate1';
  try {
    const path = '/org/freedesktop/timedate1';
    const property = { destination: name, path, iface: name, name: 'NTPSynchronized' };
    return (await busProperty(bus, property, signal)) === true;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/** Decisions don't need the exact minute of the synchronisation. */
const CLOCK_ANSWER_MS = 10 * 60_000;

/**
 * Caches {@link isClockSynchronized} for ten minutes: each call starts timedated, which ends half a
 * minute later, and adds lines to the journal. A missing answer counts as false and is not cached.
 */
export function rememberClockAnswer(
  query: (signal: AbortSignal) => Promise<boolean | undefined>,
  clock: Pick<Clock, 'monotonic'>,
): (signal: AbortSignal) => Promise<boolean> {
  let last: { readonly answer: boolean; readonly atMs: number } | undefined;
  return async (signal) => {
    if (last === undefined || clock.monotonic() - last.atMs >= CLOCK_ANSWER_MS) {
      const answer = await query(signal);
      last = answer === undefined ? undefined : { answer, atMs: clock.monotonic() };
    }
    return last?.answer ?? false;
  };
}

/** random(4); the time includes sleep. */
export function bootTime(bootIdFile = '/proc/sys/kernel/random/boot_id'): BootTime {
  return { bootId: readFileSync(bootIdFile, 'utf8').trim(), uptimeMs: Math.round(uptime() * 1000) };
}
