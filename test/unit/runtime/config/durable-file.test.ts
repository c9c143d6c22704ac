import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { writeDurably } from '../../../../src/runtime/config/config-file.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const base = folderForEach();

describe('writeDurably', () => {
  it('makes a world-readable file with any umask', async () => {
    const umask = process.umask(0o077);
    try {
      expect(await writeDurably({ path: join(base, 'deep/er/file') }, 'text')).toBe(true);
    } finally {
      process.umask(umask);
    }
    expect(statSync(join(base, 'deep/er/file')).mode & 0o7777).toBe(0o644);
    expect(readFileSync(join(base, 'deep/er/file'), 'utf8')).toBe('text');
  });

  it('does not write a file that has the wanted content and mode', async () => {
    const path = join(base, 'file');
    await writeDurably({ path }, 'text');
    const { ino } = statSync(path);
    expect(await writeDurably({ path }, 'text')).toBe(false);
    expect(statSync(path).ino).toBe(ino);
  });

  it('replaces a file with other content or another mode, and a link', async () => {
    const path = join(base, 'file');
    await writeDurably({ path }, 'text');
    expect(await writeDurably({ path }, 'other')).toBe(true);
    chmodSync(path, 0o600);
    expect(await writeDurably({ path }, 'other')).toBe(true);
    const target = join(base, 'target');
    writeFileSync(target, 'other');
    rmSync(path);
    symlinkSync(target, path);
    expect(await writeDurably({ path }, 'other')).toBe(true);
    expect(readdirSync(base).sort()).toEqual(['file', 'target']);
    expect(readFileSync(target, 'utf8')).toBe('other');
  });

  it('syncs a new folder and the staged bytes before they get their name, and the name after it', async () => {
    const path = join(base, 'file');
    const handle = await open(base, 'r');
    const prototype: typeof handle = Object.getPrototypeOf(handle);
    await handle.close();
    const named: boolean[] = [];
    const { sync } = prototype;
    const spy = vi.spyOn(prototype, 'sync').mockImplementation(async function (this: typeof handle) {
      named.push(existsSync(path));
      return sync.call(this);
    });
    try {
      await writeDurably({ path, stagingDirectory: join(base, 'staging') }, 'text');
      expect(named).toEqual([false, false, true]);
      await writeDurably({ path }, 'text');
      expect(named).toHaveLength(3);
    } finally {
      spy.mockRestore();
    }
  });

  it('overwrites files that a crash left in the staging directory, and leaves nothing there', async () => {
    const staging = join(base, 'staging');
    const file = { path: join(base, 'watched/file'), stagingDirectory: staging };
    await writeDurably(file, 'one');
    writeFileSync(join(staging, '.file.stickpin-new'), 'half of a longer text');
    await writeDurably(file, 'two');
    expect(readFileSync(file.path, 'utf8')).toBe('two');
    expect(readdirSync(join(base, 'watched'))).toEqual(['file']);
    expect(readdirSync(staging)).toEqual([]);
  });

  it('says which file could not be written', async () => {
    writeFileSync(join(base, 'file'), '');
    await expect(writeDurably({ path: join(base, 'file/below') }, 'text')).rejects.toMatchObject({
      code: 'runtime/write',
      disposition: 'wait',
      message: expect.stringContaining(join(base, 'file/below')),
    });
  });
});
