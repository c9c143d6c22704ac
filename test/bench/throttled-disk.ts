import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { execute } from '../support/rootfs/execute.ts';

/** A disk of this host that is as slow as a stick, read-only and mounted. */
export interface ThrottledDisk {
  /** Where its files are. */
  readonly path: string;
  /** Takes its files out of the page cache. */
  cool(): Promise<unknown>;
  /** Gives the disk and the limit up. Whoever was started under it must have ended, or end now. */
  release(): Promise<void>;
}

const EXTRA_BYTES = 64 * 1024 * 1024;

/**
 * Puts what lies in `source` on a loop device with ext4 that this process, and what it starts from now on, reads at `bytesPerSecond`: the kernel
 * holds the requests of a control group back (`blkio.throttle` of version 1, `io.max` of version 2), as many bytes ahead as it would with a real
 * disk. `folder` takes the image. Needs root.
 *
 * @throws Error when the host has neither controller, or mkfs.ext4, losetup or mount fails
 */
export async function throttledDisk(source: string, folder: string, bytesPerSecond: number): Promise<ThrottledDisk> {
  const image = join(folder, 'disk.img');
  const path = join(folder, 'mounted');
  mkdirSync(path, { recursive: true });
  const sizeBytes = Number.parseInt(await execute(['du', '--summarize', '--block-size=1', source]), 10);
  await execute(['truncate', `--size=${Math.ceil(sizeBytes * 1.1) + EXTRA_BYTES}`, image]);
  await execute(['mkfs.ext4', '-q', '-d', source, image]);
  const device = (await execute(['losetup', '--find', '--show', '--read-only', image])).trim();
  try {
    const leave = limitReads(device, bytesPerSecond);
    await execute(['mount', '--options=ro,noload', device, path]);
    const forget = ['dd', 'if={}', 'iflag=nocache', 'count=0', 'status=none'];
    return {
      path,
      cool: () => execute(['find', path, '-type', 'f', '-exec', ...forget, ';']),
      release: async () => {
        await execute(['umount', path]);
        await execute(['losetup', '--detach', device]);
        rmSync(image);
        await leave();
      },
    };
  } catch (error) {
    await execute(['losetup', '--detach', device]);
    throw error;
  }
}

const CGROUPS = '/sys/fs/cgroup';
const GROUP = 'stickpin-bench';

/** Moves this process into a control group that reads `device` at most so fast; what is returned undoes it. */
function limitReads(device: string, bytesPerSecond: number): () => Promise<void> {
  const { rdev } = statSync(device);
  const number = `${(rdev >> 8) & 0xfff}:${(rdev & 0xff) | ((rdev >> 12) & 0xfff00)}`;
  const isUnified = existsSync(join(CGROUPS, 'cgroup.controllers'));
  const controller = isUnified ? CGROUPS : join(CGROUPS, 'blkio');
  const group = join(controller, GROUP);
  const of = isUnified ? /^0::(.*)$/m : /^\d+:blkio:(.*)$/m;
  const home = join(controller, of.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/');
  if (isUnified) writeFileSync(join(controller, 'cgroup.subtree_control'), '+io');
  mkdirSync(group, { recursive: true });
  if (isUnified) writeFileSync(join(group, 'io.max'), `${number} rbps=${bytesPerSecond}`);
  else writeFileSync(join(group, 'blkio.throttle.read_bps_device'), `${number} ${bytesPerSecond}`);
  const enter = (folder: string, pid: number | string) => writeFileSync(join(folder, 'cgroup.procs'), `${pid}`);
  enter(group, process.pid);
  return () =>
    // With what this process keeps running, such as the service of esbuild.
    eventually(() => {
      const pids = readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n');
      for (const pid of pids) if (pid !== '') enter(home, pid);
      rmdirSync(group);
    }, 30_000);
}
