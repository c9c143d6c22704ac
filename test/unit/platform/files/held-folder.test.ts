import { chownSync, mkdirSync, readdirSync, readlinkSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  holdBelow,
  holdFolder,
  holdWithoutLinks,
  shareFolder,
  withFolder,
} from '../../../../src/platform/files/held-folder.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const base = folderForEach();
afterEach(() => {
  expect(heldBelow(base)).toEqual([]);
});

/** What this process holds open below a folder. */
function heldBelow(path: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(path) ? [target] : [];
    } catch {
      return [];
    }
  });
}

const put = (path: string, content = path): string => {
  const at = join(base, path);
  mkdirSync(join(at, '..'), { recursive: true });
  writeFileSync(at, content);
  return at;
};

describe('a folder that is held', () => {
  it('stays the same one when it is renamed and a link stands in its place', async () => {
    put('a/file', 'right');
    put('elsewhere/file', 'secret');
    await withFolder(holdFolder(join(base, 'a')), async (folder) => {
      renameSync(join(base, 'a'), join(base, 'b'));
      symlinkSync(join(base, 'elsewhere'), join(base, 'a'));
      const file = await folder.openFile('file');
      expect(await file.readFile('utf8')).toBe('right');
      await file.close();
      expect(await folder.names(10)).toEqual(['file']);
      expect((await folder.stat('file')).size).toBe(5);
    });
  });

  it('opens no link, and names the original path in errors', async () => {
    put('a/b/file');
    symlinkSync('b', join(base, 'a/folder'));
    symlinkSync('b/file', join(base, 'a/file'));
    await withFolder(holdFolder(join(base, 'a')), async (folder) => {
      await expect(folder.openFolder('folder')).rejects.toMatchObject({ code: 'ENOTDIR' });
      await expect(folder.openFile('file')).rejects.toMatchObject({ code: 'ELOOP' });
      await expect(folder.openFile('none')).rejects.toThrow(join(base, 'a/none'));
      await expect(folder.openFile('no. See x')).rejects.toThrow(`${base}/a/"no. See x"'`);
      for (const name of ['b/file', '', '/etc'])
        await expect(folder.stat(name)).rejects.toMatchObject({ code: 'ENOENT' });
    });
  });

  it('is closed when its running calls are over, and refuses later ones', async () => {
    put('a/file');
    const folder = await holdFolder(join(base, 'a'));
    const under = Promise.all(Array.from({ length: 20 }, () => folder.stat('file')));
    const closed = folder.close();
    await expect(folder.stat('file')).rejects.toMatchObject({ code: 'ESTALE' });
    expect(await under).toHaveLength(20);
    await closed;
    await folder.close();
  });

  it('is opened one path component after another', async () => {
    put('a/b/c/file');
    await withFolder(holdFolder(base), async (root) => {
      await withFolder(holdBelow(root, ['a', 'b', 'c']), async (folder) => {
        expect([folder.path, await folder.names(1)]).toEqual([join(base, 'a/b/c'), ['file']]);
      });
      renameSync(join(base, 'a/b'), join(base, 'a/x'));
      symlinkSync('x', join(base, 'a/b'));
      await expect(holdBelow(root, ['a', 'b', 'c'])).rejects.toMatchObject({ code: 'ENOTDIR' });
    });
  });
});

describe('the path to a medium', () => {
  const namesAt = (path: string) => withFolder(holdWithoutLinks(join(base, path)), (folder) => folder.names(10));

  it('may have links that only root could have made', async () => {
    put('a/b/file');
    symlinkSync(join(base, 'a'), join(base, 'absolute'));
    symlinkSync('../a', join(base, 'a/relative'));
    expect(await namesAt('absolute/b')).toEqual(['file']);
    expect(await namesAt('a/relative/b')).toEqual(['file']);
    symlinkSync('loop', join(base, 'loop'));
    await expect(namesAt('loop')).rejects.toMatchObject({ code: 'ELOOP' });
    await expect(namesAt('none')).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(namesAt('a/b/file')).rejects.toMatchObject({ code: 'ENOTDIR' });
  });

  it('may have no link in a folder that others can write', async () => {
    put('a/file');
    mkdirSync(join(base, 'open'));
    symlinkSync('../a', join(base, 'open/link'));
    expect(await namesAt('open/link')).toEqual(['file']);
    await chmod(join(base, 'open'), 0o777);
    await expect(namesAt('open/link')).rejects.toMatchObject({ code: 'ENOTDIR' });
    // In a folder as /tmp nobody replaces what is another's.
    await chmod(join(base, 'open'), 0o1777);
    expect(await namesAt('open/link')).toEqual(['file']);
  });

  it.runIf(process.getuid?.() === 0)('may have no link in a folder of a user', async () => {
    put('a/file');
    mkdirSync(join(base, 'home'));
    symlinkSync('../a', join(base, 'home/link'));
    chownSync(join(base, 'home'), 65_534, 65_534);
    await expect(namesAt('home/link')).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});

describe('a folder that is shared', () => {
  it('is opened once for concurrent uses, closed after the last, and opened again for the next', async () => {
    let opened = 0;
    put('a/file');
    const use = shareFolder(() => {
      opened += 1;
      return holdFolder(join(base, 'a'));
    });
    const names = () => use(async (folder) => folder?.names(1));
    expect(await use(() => Promise.all([names(), names()]))).toEqual([['file'], ['file']]);
    expect([opened, heldBelow(base)]).toEqual([1, []]);
    expect([await names(), opened]).toEqual([['file'], 2]);
  });

  it('may stay open for a time after it was opened, for the uses in that time', async () => {
    vi.useFakeTimers();
    try {
      let opened = 0;
      put('a/file');
      const use = shareFolder(() => {
        opened += 1;
        return holdFolder(join(base, 'a'));
      }, 300);
      const names = () => use(async (folder) => folder?.names(1));
      await names();
      expect([await names(), opened, heldBelow(base).length]).toEqual([['file'], 1, 1]);
      await vi.advanceTimersByTimeAsync(300);
      await vi.waitFor(() => expect(heldBelow(base)).toEqual([]));
      expect([await names(), opened]).toEqual([['file'], 2]);
      // A use that lasts longer keeps it open.
      await use(() => vi.advanceTimersByTimeAsync(300).then(names));
      expect(opened).toBe(2);
      await vi.waitFor(() => expect(heldBelow(base)).toEqual([]));
    } finally {
      vi.useRealTimers();
    }
  });

  it('is opened again when it was absent or could not be opened', async () => {
    const answers = [async () => undefined, () => Promise.reject(new Error('bad')), () => holdFolder(base)];
    const use = shareFolder(() => answers.shift()?.() ?? expect.unreachable(), 1);
    const isThere = () => use(async (folder) => folder !== undefined);
    expect(await isThere()).toBe(false);
    await expect(isThere()).rejects.toThrow('bad');
    expect(await isThere()).toBe(true);
    await vi.waitFor(() => expect(heldBelow(base)).toEqual([]));
  });
});
