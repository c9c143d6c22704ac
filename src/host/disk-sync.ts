import { readFile, stat } from 'node:fs/promises';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted, withDeadline } from '../platform/async/abort.ts';
import { runSync } from '../platform/files/file-access.ts';
import { type MountEntry, parseMountinfo } from '../platform/files/mountinfo.ts';
import type { DiskSync } from '../ports/node.ts';

/** Memory may hold gigabytes for a disk that writes 20 MiB/s. */
const DEADLINE_MS = 10 * 60_000;

/**
 * Runs sync(1) once for each filesystem, in a separate process: the kernel may block it on a disk.
 * INVARIANT: a sync begins after the end of one that was given up, so that processes that nobody
 * can end don't pile up.
 */
export class SyncProgram implements DiskSync {
  private ended: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly timeoutMs = DEADLINE_MS,
    private readonly mountinfo = '/proc/self/mountinfo',
  ) {}

  async sync(paths: readonly string[], signal: AbortSignal): Promise<void> {
    try {
      await withDeadline('The disk', this.timeoutMs, signal, async (inner) => {
        await untilAborted(this.ended, inner);
        for (const args of await callsFor(paths, this.mountinfo)) await this.run(args, inner);
      });
    } catch (error) {
      signal.throwIfAborted();
      const where = paths.length === 0 ? 'all local filesystems' : `the filesystem of ${paths.join(', ')}`;
      const message = `what is written to ${where} is not safe on its disk yet: ${reasonOf(error)}. Look for errors of the disk in dmesg; it is tried again automatically`;
      throw new AppError({ code: 'host/sync', message, disposition: 'retry', cause: error });
    }
  }

  private async run(args: readonly string[], signal: AbortSignal): Promise<void> {
    const running = runSync(args, signal);
    this.ended = running;
    const fault = await untilAborted(running, signal);
    if (fault !== undefined) throw new Error(`sync ${args.join(' ')} failed: ${fault}`);
  }
}

/**
 * One call for each filesystem of the paths and of the mounts below them. If no path is named, or
 * one is hidden from this process (`ProtectHome=`), one for each local disk, so that a silent
 * server causes no wait. sync(1) of the whole machine remains for a disk that is mounted and
 * hidden.
 */
async function callsFor(paths: readonly string[], file: string): Promise<readonly (readonly string[])[]> {
  const devices = new Map<number, string>();
  const add = async (path: string) => {
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && !devices.has(found.dev)) devices.set(found.dev, path);
    return found !== undefined;
  };
  const disks = parseMountinfo(await readFile(file, 'utf8')).flatMap((mount, at, all) => {
    const isHidden = () => all.slice(at + 1).some((later) => isWithin(mount.mountPoint, later.mountPoint));
    return isWritableDisk(mount) ? [{ ...mount, isHidden: isHidden() }] : [];
  });
  let areKnown = paths.length > 0;
  for (const path of paths) areKnown = (await add(path)) && areKnown;
  const needed = areKnown
    ? disks.filter(({ mountPoint, isHidden }) => !isHidden && paths.some((path) => isWithin(mountPoint, path)))
    : disks;
  const seen = new Set(needed.flatMap(({ isHidden, device }) => (isHidden ? [] : device)));
  if (!areKnown && (needed.length === 0 || needed.some(({ device }) => !seen.has(device)))) return [[]];
  for (const { mountPoint, isHidden } of needed) if (!isHidden) await add(mountPoint);
  return [...devices.values()].map((path) => ['-f', path]);
}

/**
 * An overlay has its files on a disk that is mounted elsewhere. A volume of a pod holds no image.
 */
function isWritableDisk({ source, type, superOptions, mountPoint }: MountEntry): boolean {
  const isDisk = source.startsWith('/dev/') || type === 'zfs';
  return isDisk && superOptions.includes('rw') && !isWithin(mountPoint, '/var/lib/kubelet');
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
}
