import { realpath, rmdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { systemCodeOf } from '../../platform/app-error.ts';
import type { MirrorAddress } from '../config/mirror-address.ts';
import type { PathRecord } from '../config/path-record.ts';
import { createHostsDirectory, forEachAllowed } from './hosts-directory.ts';

/**
 * The folder that mirrors are written to, then the folders with further configuration of the user
 * (see {@link createHostsDirectory}).
 */
export type MirrorPlace = readonly [string, ...string[]];

/** Mirrors in all folders that containerd may read, and none in those that it read before. */
export interface MirrorFolders {
  /**
   * As `apply` of a hosts directory, in each of `places`. Folders of earlier calls that are not
   * among them get their own files back. One that can't be cleared is left, and stays recorded.
   *
   * @throws AppError `runtime/config`, `runtime/write`, `runtime/no-space`
   */
  apply(places: readonly MirrorPlace[], repositories: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Repositories mirrored in every one of `places`, sorted. `stale …` is one that is missing in one
   * of them, that has another address, that is in a folder of earlier calls, or whose folder is not
   * recorded.
   */
  rendered(places: readonly MirrorPlace[], signal: AbortSignal): Promise<string[]>;
}

/** Folders that `systemd/clear-mirrors` looks into without a record. */
export const FOLDERS_CLEARED_ANYWAY: readonly string[] = [
  '/etc/containerd/certs.d',
  '/etc/containerd/certs.d:/etc/docker/certs.d',
  '/var/lib/rancher/k3s/agent/etc/containerd/certs.d',
  '/var/lib/rancher/rke2/agent/etc/containerd/certs.d',
  '/var/snap/microk8s/current/args/certs.d',
];

const STALE = 'stale ';

/**
 * {@link MirrorFolders} whose folders are in `record`.
 *
 * INVARIANT: a folder is in the record before the first file of ours is in it, and until the last
 * one is gone. So what a daemon that crashed has left is found.
 */
export function createMirrorFolders(record: PathRecord, address: MirrorAddress): MirrorFolders {
  /** Former folders that could not be cleared. They are tried again after the next start. */
  const abandoned = new Set<string>();
  const formerFolders = async (places: readonly MirrorPlace[]) => {
    const inUse = new Set(await Promise.all(places.map(([folder]) => realPathOf(folder))));
    const former: string[] = [];
    for (const folder of await record.read()) if (!inUse.has(await realPathOf(folder))) former.push(folder);
    return former;
  };
  const isCleared = async (folder: string, signal: AbortSignal): Promise<boolean> => {
    try {
      await createHostsDirectory([folder], address).apply([], signal);
      await removeLiteralDirectory(folder);
      return true;
    } catch {
      signal.throwIfAborted();
      abandoned.add(folder);
      return false;
    }
  };
  return {
    apply: async (places, repositories, signal) => {
      const inUse = places.map(([folder]) => folder);
      const former = await formerFolders(places);
      if (repositories.length > 0) await record.write([...former, ...inUse]);
      await forEachAllowed(places, (place) => createHostsDirectory(place, address).apply(repositories, signal));
      if (repositories.length === 0) for (const folder of inUse) await removeLiteralDirectory(folder);
      const left: string[] = [];
      for (const folder of former) if (!(await isCleared(folder, signal))) left.push(folder);
      await record.write([...left, ...(repositories.length > 0 ? inUse : [])]);
    },
    rendered: async (places, signal) => {
      const recorded = new Set(await record.read());
      const lists: (readonly string[])[] = [];
      for (const place of places) {
        const names = await createHostsDirectory(place, address).rendered(signal);
        lists.push(recorded.has(place[0]) ? names : names.map(stale));
      }
      const leftOver: string[] = [];
      for (const folder of await formerFolders(places))
        if (!abandoned.has(folder)) leftOver.push(...(await leftIn(folder, address, signal)));
      const found = lists.flat().map((name) => (lists.every((names) => names.includes(name)) ? name : stale(name)));
      return [...new Set([...found, ...leftOver])].sort();
    },
  };
}

/** One folder may be written in several ways, with a slash at its end or by a link. */
async function realPathOf(folder: string): Promise<string> {
  return realpath(folder).catch(() => resolve(folder));
}

async function leftIn(folder: string, address: MirrorAddress, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return (await createHostsDirectory([folder], address).rendered(signal)).map(stale);
  } catch {
    // What can't be read is not in use any more.
    signal.throwIfAborted();
    return [];
  }
}

function stale(name: string): string {
  return name.startsWith(STALE) ? name : `${STALE}${name}`;
}

/**
 * A folder named after a list exists for our files alone. So it goes with the last one, and so do
 * the folders above it that its name made. What somebody else has there stays.
 */
async function removeLiteralDirectory(folder: string): Promise<void> {
  for (let path = folder; path.includes(':'); path = dirname(path)) {
    try {
      await rmdir(path);
    } catch (error) {
      if (systemCodeOf(error) !== 'ENOENT') return;
    }
  }
}
