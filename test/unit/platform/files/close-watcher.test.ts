import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { beforeEach, describe, expect, it } from 'vitest';
import { closeWatcher } from '../../../../src/platform/files/file-access.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

describe('a closed watch', () => {
  const base = folderForEach();
  let watcher: FSWatcher;

  beforeEach(async () => {
    mkdirSync(join(base, 'stick'));
    watcher = watch(join(base, 'stick'));
    await new Promise<void>((resolve) => watcher.once('ready', resolve));
    await closeWatcher(watcher);
  });

  it('stays closed when chokidar itself adds the folder around what was removed', () => {
    watcher.add(base);
    expect(watcher.closed).toBe(true);
    expect(watcher.getWatched()).toEqual({});
  });

  it('throws nothing when a check fails that still ran', () => {
    expect(() => watcher.emit('error', new Error('EIO'))).not.toThrow();
  });
});
