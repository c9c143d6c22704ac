import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Requirement } from '../requirements.ts';

/** A small filesystem of its own, for tests that fill it or make it read-only. */
export interface SmallDisk {
  /** Where it is mounted. */
  readonly path: string;
  /** Takes all room that is left. */
  fill(): void;
  /** Gives back what {@link SmallDisk.fill} took. */
  free(): void;
  /** Makes it read-only; nothing may have a file on it open for writing. */
  readOnly(): void;
  writable(): void;
  /**
   * Makes it read-only under everything that is open, as a disk with errors does. Of `ext4` only;
   * there is no way back.
   */
  breakDown(): void;
  /** Unmounts it, whatever is open on it. */
  dispose(): void;
}

/** Root may mount filesystems: not so in every container. */
export const mounting: Requirement = { name: 'mount', isMet: canMount, remedy: 'run as root, with CAP_SYS_ADMIN' };

function canMount(): boolean {
  try {
    mountSmallDisk('tmpfs', 64 * 1024).dispose();
    return true;
  } catch {
    return false;
  }
}

/** Mounts one of `sizeBytes`. `ext4` needs a loop device. */
export function mountSmallDisk(kind: 'tmpfs' | 'ext4', sizeBytes: number): SmallDisk {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-disk-'));
  const path = join(base, 'disk');
  mkdirSync(path);
  const mount = (...args: readonly string[]) => execFileSync('mount', [...args, path], { stdio: 'pipe' });
  try {
    if (kind === 'tmpfs') mount('-t', 'tmpfs', '-o', `size=${sizeBytes}`, 'tmpfs');
    else mount('-o', 'loop', makeImage(join(base, 'image'), sizeBytes));
  } catch (error) {
    rmSync(base, { recursive: true, force: true });
    throw error;
  }
  const filler = join(path, '.filler');
  return {
    path,
    fill: () => fillWith(filler),
    free: () => rmSync(filler, { force: true }),
    readOnly: () => mount('-o', 'remount,ro'),
    writable: () => mount('-o', 'remount,rw'),
    breakDown: () => mount('-o', 'remount,abort'),
    dispose: () => {
      execFileSync('umount', ['--lazy', path]);
      rmSync(base, { recursive: true, force: true });
    },
  };
}

function makeImage(path: string, sizeBytes: number): string {
  writeFileSync(path, '');
  truncateSync(path, sizeBytes);
  execFileSync('mkfs.ext4', ['-q', path], { stdio: 'pipe' });
  return path;
}

function fillWith(path: string): void {
  const file = openSync(path, 'a');
  try {
    for (let size = 64 * 1024; size > 0; ) {
      try {
        writeSync(file, Buffer.alloc(size));
      } catch {
        size = Math.floor(size / 2);
      }
    }
  } finally {
    closeSync(file);
  }
}
