import { readFile } from 'node:fs/promises';
import { machinePaths } from './device/device.ts';
import { type MountEntry, parseMountinfo } from './mount/mountinfo.ts';
import type { OpenMedium, PluggedMedium } from './provider/media-provider.ts';

/** Reads the mounts of this process. */
export type ReadMounts = () => Promise<readonly MountEntry[]>;

/** What has become of the place where a medium was read, or would be. */
export type MountFate = 'there' | 'gone' | 'elsewhere';

/** A medium, and what it is read through; undefined when it was found unmounted. */
interface Followed {
  readonly plugged: PluggedMedium;
  readonly opened: OpenMedium | undefined;
}

/**
 * A look at all mounts, with one read of `/proc/self/mountinfo`. A medium that left by itself is
 * not told here: its provider does that. Nothing is told either when the mounts can't be read.
 */
export function createMountLook(readMounts: ReadMounts = readOwnMounts) {
  return async <T extends Followed>(
    followed: readonly T[],
    signal: AbortSignal,
  ): Promise<readonly (readonly [T, MountFate])[]> => {
    const mountable = followed.filter(({ plugged }) => plugged.mountPoints !== undefined);
    if (mountable.length === 0) return [];
    const first = await look(mountable, readMounts);
    // Kernels before 5.8 leave lines out when something is unmounted while the file is read: what
    // lacks is looked for twice.
    const lacking = first.filter(([, fate]) => fate === 'gone').map(([one]) => one);
    const second = new Map(lacking.length === 0 ? [] : await look(lacking, readMounts));
    const fates: (readonly [T, MountFate])[] = [];
    for (const [one, fate] of first) {
      const now = fate === 'gone' ? (second.get(one) ?? 'there') : fate;
      // Its device went, and systemd has unmounted it: the news of that are under way.
      if (now === 'gone' && !(await one.plugged.isThere(signal))) continue;
      fates.push([one, now]);
    }
    return fates;
  };
}

async function look<T extends Followed>(
  followed: readonly T[],
  readMounts: ReadMounts,
): Promise<(readonly [T, MountFate])[]> {
  const mounts = await readMounts().catch(() => []);
  // There is always a root: no mounts at all means that they could not be read.
  if (mounts.length === 0) return [];
  return followed.map((one) => [one, fateOf(one, mounts)]);
}

function fateOf({ plugged, opened }: Followed, mounts: readonly MountEntry[]): MountFate {
  const mountPoints = plugged.mountPoints?.(mounts) ?? [];
  if (opened !== undefined && mountPoints.includes(opened.place)) return 'there';
  return mountPoints.length > 0 ? 'elsewhere' : 'gone';
}

async function readOwnMounts(): Promise<readonly MountEntry[]> {
  return parseMountinfo(await readFile(machinePaths.mountinfo, 'utf8'));
}
