import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import {
  fillNewFile,
  replaceFile,
  syncFile,
  syncFolder,
  syncFolderIfPossible,
  writeNewFile,
} from '../../../../src/platform/files/durable-file.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

describe('files that outlive a power cut', () => {
  const folder = folderForEach();
  const at = (name: string) => join(folder, name);
  const modeOf = (name: string) => statSync(at(name)).mode & 0o777;

  it('are new ones, with the mode that is asked for, and never take the place of another', async () => {
    await writeNewFile(at('key'), 'secret', { mode: 0o600 });
    expect([readFileSync(at('key'), 'utf8'), modeOf('key')]).toEqual(['secret', 0o600]);
    await expect(writeNewFile(at('key'), 'other')).rejects.toMatchObject({ code: 'EEXIST' });
    expect(readFileSync(at('key'), 'utf8')).toBe('secret');
  });

  it('are written by the caller, whose result and error are returned', async () => {
    expect(await fillNewFile(at('a'), async (file) => (await file.write('one')).bytesWritten)).toBe(3);
    expect(readFileSync(at('a'), 'utf8')).toBe('one');
    await expect(fillNewFile(at('b'), () => Promise.reject(new Error('no more')))).rejects.toThrow('no more');
  });

  it('are not written after an abort', async () => {
    await expect(writeNewFile(at('a'), 'one', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'ABORT_ERR',
    });
  });

  it('are replaced in one step, and not touched when they already have the content', async () => {
    expect(await replaceFile({ path: at('deep/er/file') }, 'one')).toBe(true);
    expect(await replaceFile({ path: at('deep/er/file') }, 'one')).toBe(false);
    expect(await replaceFile({ path: at('deep/er/file') }, 'two')).toBe(true);
    expect(readdirSync(at('deep/er'))).toEqual(['file']);
    expect([readFileSync(at('deep/er/file'), 'utf8'), modeOf('deep/er/file')]).toEqual(['two', 0o644]);
  });

  it('are synced with their folder, and not at all where nothing outlives a power cut', async () => {
    const handle = await open(folder, 'r');
    const syncs = vi.spyOn(Object.getPrototypeOf(handle), 'sync');
    await handle.close();
    try {
      expect(await replaceFile({ path: at('a'), isVolatile: true }, 'one')).toBe(true);
      expect(syncs).toHaveBeenCalledTimes(0);
      expect([readFileSync(at('a'), 'utf8'), modeOf('a'), readdirSync(folder)]).toEqual(['one', 0o644, ['a']]);
      expect(await replaceFile({ path: at('a') }, 'two')).toBe(true);
      expect(syncs).toHaveBeenCalledTimes(2);
    } finally {
      syncs.mockRestore();
    }
  });

  it('are written again after a sync of their folder that failed, although they have the content', async () => {
    const handle = await open(folder, 'r');
    const syncs = vi.spyOn(Object.getPrototypeOf(handle), 'sync');
    await handle.close();
    try {
      syncs.mockImplementationOnce(async () => undefined).mockRejectedValueOnce(new Error('EIO'));
      await expect(replaceFile({ path: at('a') }, 'one')).rejects.toThrow('EIO');
      expect(await replaceFile({ path: at('a') }, 'one')).toBe(true);
      expect(await replaceFile({ path: at('a') }, 'one')).toBe(false);
    } finally {
      syncs.mockRestore();
    }
  });

  it('keep what they had when the replacement is aborted', async () => {
    writeFileSync(at('a'), 'one');
    const stop = new AbortController();
    await expect(replaceFile({ path: at('a') }, 'two', AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop');
    const underWay = replaceFile({ path: at('a') }, 'two', stop.signal);
    stop.abort(new Error('stop'));
    await expect(underWay).rejects.toThrow('stop');
    expect(readFileSync(at('a'), 'utf8')).toBe('one');
    await replaceFile({ path: at('a') }, 'two');
    expect([readFileSync(at('a'), 'utf8'), readdirSync(folder)]).toEqual(['two', ['a']]);
  });

  it('get their mode with their sync', async () => {
    writeFileSync(at('a'), 'one', { mode: 0o600 });
    await syncFile(at('a'));
    expect(modeOf('a')).toBe(0o600);
    await syncFile(at('a'), 0o644);
    expect(modeOf('a')).toBe(0o644);
  });

  it('are synced with their folder, also where a filesystem of the kernel does not support that', async () => {
    await syncFolder(folder);
    await syncFolderIfPossible(folder);
    await expect(syncFolder('/proc')).rejects.toMatchObject({ code: 'EINVAL' });
    await syncFolderIfPossible('/proc');
    await expect(syncFolderIfPossible(at('missing'))).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
