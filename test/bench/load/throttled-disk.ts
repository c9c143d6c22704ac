import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { execute } from '../../support/rootfs/execute.ts';
import { createControlGroup } from './control-group.ts';

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
 * Puts what lies in `source` on a loop device with ext4 that this process, and what it starts from
 * now on, reads at `bytesPerSecond`: the kernel holds the requests of a control group back
 * (`blkio.throttle` of version 1, `io.max` of version 2), as many bytes ahead as it would with a
 * real disk. `folder` takes the image. Needs root.
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

/**
 * Moves this process into a control group that reads `device` at most so fast; what is returned
 * undoes it.
 */
function limitReads(device: string, bytesPerSecond: number): () => Promise<void> {
  const { rdev } = statSync(device);
  const number = `${(rdev >> 8) & 0xfff}:${(rdev & 0xff) | ((rdev >> 12) & 0xfff00)}`;
  const group = createControlGroup('stickpin-bench', {
    v1: { controller: 'blkio', file: 'blkio.throttle.read_bps_device', text: `${number} ${bytesPerSecond}` },
    v2: { controller: 'io', file: 'io.max', text: `${number} rbps=${bytesPerSecond}` },
  });
  group.enter(process.pid);
  return group.release;
}
