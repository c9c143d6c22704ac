import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../../src/platform/log.ts';
import { lockFolders } from '../../../src/store/files/folder-lock.ts';
import { mounting, mountSmallDisk } from '../../support/files/small-disk.ts';
import { have } from '../../support/requirements.ts';

const { signal } = new AbortController();
/** A clock whose sleeps end at once. */
const clock = { now: () => 0, monotonic: () => 0, sleep: async () => undefined };
let folder: string;
let release: () => void;

/** A lock belongs to an open file: another one of the same process does not get it either. */
const lock = (...folders: readonly string[]) =>
  lockFolders(folders, { program: 'stickpin', clock, log: silentLog }, signal);

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-lock-'));
  release = await lock(folder);
});
afterEach(() => {
  release();
  rmSync(folder, { recursive: true, force: true });
});

describe('the lock of a folder', () => {
  it('is refused for good while the process that has it lives', async () => {
    await expect(lock(folder)).rejects.toMatchObject({ code: 'store/in-use', disposition: 'fatal' });
  });

  it('is refused for now when that process has ended and the kernel still has its files open', async () => {
    writeFileSync(join(folder, 'lock'), '4194305\n');
    await expect(lock(folder)).rejects.toMatchObject({ code: 'store/dying', disposition: 'retry' });
  });

  it('is taken once where two settings name one folder, and by the next one after its release', async () => {
    release();
    release = await lock(folder, folder);
    await expect(lock(folder)).rejects.toMatchObject({ code: 'store/in-use' });
  });
});

describe.runIf(have('root', mounting))('the lock of a folder on a disk that became read-only', () => {
  it('is refused while another process has it', async () => {
    const disk = mountSmallDisk('tmpfs', 1024 * 1024);
    let free = await lock(disk.path);
    try {
      free();
      disk.readOnly();
      free = await lock(disk.path);
      await expect(lock(disk.path)).rejects.toMatchObject({ code: 'store/in-use' });
    } finally {
      free();
      disk.dispose();
    }
  });
});
