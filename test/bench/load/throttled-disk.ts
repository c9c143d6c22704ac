import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { execute } from '../../support/rootfs/execute.ts';
import { createControlGroup } from './control-group.ts';

/** A disk of this host, read-only and mounted. */
export interface MountedDisk {
  /** Where its files are. */
  readonly path: string;
  /** Takes its files out of the page cache. */
  cool(): Promise<unknown>;
  /** Takes the files at or below `path` into the page cache, and all others out of it. */
  warm(path: string): Promise<void>;
  /** What was read from the device so far, not from page cache. */
  readBytes(): number;
  /**
   * Makes it as slow as a stick for this process and what it starts from now on, until what is
   * returned is called. Whoever was started under the limit must have ended by then, or end now.
   */
  limit(bytesPerSecond: number): () => Promise<void>;
  /** Gives the disk up. */
  release(): Promise<void>;
}

const EXTRA_BYTES = 64 * 1024 * 1024;
const FORGET = ['dd', 'if={}', 'iflag=nocache', 'count=0', 'status=none'];
/** The unit of /sys/block/DEVICE/stat, whatever the device has. */
const SECTOR_BYTES = 512;

/**
 * Puts what lies in `source` on a disk that is limited at once.
 *
 * @throws Error when the host has no controller, or as {@link mountedDisk}
 */
export async function throttledDisk(source: string, folder: string, bytesPerSecond: number): Promise<MountedDisk> {
  const disk = await mountedDisk(source, folder);
  try {
    const leave = disk.limit(bytesPerSecond);
    return { ...disk, release: () => disk.release().then(leave) };
  } catch (error) {
    await disk.release();
    throw error;
  }
}

/**
 * Puts what lies in `source` on a loop device with ext4. `folder` takes the image. To limit it, the
 * kernel holds the requests of a control group back (`blkio.throttle` of version 1, `io.max` of
 * version 2), as many bytes ahead as it would with a real disk. Needs root.
 *
 * @throws Error when mkfs.ext4, losetup or mount fails
 */
export async function mountedDisk(source: string, folder: string): Promise<MountedDisk> {
  const image = join(folder, 'disk.img');
  const path = join(folder, 'mounted');
  mkdirSync(path, { recursive: true });
  const sizeBytes = Number.parseInt(await execute(['du', '--summarize', '--block-size=1', source]), 10);
  await execute(['truncate', `--size=${Math.ceil(sizeBytes * 1.1) + EXTRA_BYTES}`, image]);
  await execute(['mkfs.ext4', '-q', '-d', source, image]);
  const device = (await execute(['losetup', '--find', '--show', '--read-only', image])).trim();
  try {
    await execute(['mount', '--options=ro,noload', device, path]);
    const forget = (at: string) => execute(['find', at, '-type', 'f', '-exec', ...FORGET, ';']);
    const read = (at: string) => execute(['sh', '-c', 'find "$0" -type f -exec cat {} + > /dev/null', at]);
    return {
      path,
      cool: () => forget(path),
      // Only what was read twice stays there while others write, and the image would be there too.
      warm: async (at) => {
        await forget(path);
        await read(at);
        await forget(image);
        await read(at);
      },
      readBytes: () =>
        SECTOR_BYTES * Number(readFileSync(`/sys/block/${basename(device)}/stat`, 'utf8').split(/\s+/)[3]),
      limit: (bytesPerSecond) => limitReads(device, bytesPerSecond),
      release: async () => {
        await execute(['umount', path]);
        await execute(['losetup', '--detach', device]);
        rmSync(image);
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
