import { readFile } from 'node:fs/promises';
import { type MountEntry, parseMountinfo } from '../platform/files/mountinfo.ts';
import { machinePaths } from './device/device.ts';
import type { OpenMedium, PluggedMedium } from './media-provider.ts';

export type ReadMounts = (signal: AbortSignal) => Promise<readonly MountEntry[]>;

type MountFate = 'there' | 'gone' | 'elsewhere';

/** `opened` is undefined after it was found unmounted. */
interface Followed {
  readonly plugged: PluggedMedium;
  readonly opened: OpenMedium | undefined;
}

/** Omits an unplugged medium, and everything when the mounts can't be read. */
export async function checkMounts<T extends Followed>(
  followed: readonly T[],
  readMounts: ReadMounts | undefined,
  signal: AbortSignal,
): Promise<readonly (readonly [T, MountFate])[]> {
  const mountable = followed.filter(({ plugged }) => plugged.mountPoints !== undefined);
  if (mountable.length === 0) return [];
  const first = await check(mountable, readMounts, signal);
  // Kernels before 5.8 omit lines when something is unmounted during the read, so missing mounts
  // are checked twice.
  const lacking = first.filter(([, fate]) => fate === 'gone').map(([one]) => one);
  const second = new Map(lacking.length === 0 ? [] : await check(lacking, readMounts, signal));
  const fates: (readonly [T, MountFate])[] = [];
  for (const [one, fate] of first) {
    const now = fate === 'gone' ? (second.get(one) ?? 'there') : fate;
    // Its device was unplugged and systemd has unmounted it. The signal will come.
    if (now === 'gone' && !(await one.plugged.isThere(signal))) continue;
    fates.push([one, now]);
  }
  return fates;
}

async function check<T extends Followed>(
  followed: readonly T[],
  readMounts: ReadMounts | undefined,
  signal: AbortSignal,
): Promise<(readonly [T, MountFate])[]> {
  const mounts = await (readMounts ?? readOwnMounts)(signal).catch(() => {
    signal.throwIfAborted();
    return [];
  });
  // There is always a root mount. An empty list means that the mounts could not be read.
  if (mounts.length === 0) return [];
  return followed.map((one) => [one, fateOf(one, mounts)]);
}

function fateOf({ plugged, opened }: Followed, mounts: readonly MountEntry[]): MountFate {
  const mountPoints = plugged.mountPoints?.(mounts) ?? [];
  if (opened !== undefined && mountPoints.includes(opened.place)) return 'there';
  return mountPoints.length > 0 ? 'elsewhere' : 'gone';
}

async function readOwnMounts(signal: AbortSignal): Promise<readonly MountEntry[]> {
  return parseMountinfo(await readFile(machinePaths.mountinfo, { encoding: 'utf8', signal }));
}
