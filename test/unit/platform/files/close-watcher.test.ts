import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { closeWatcher } from '../../../../src/platform/files/file-access.ts';

describe('a closed watch', () => {
  let base: string;
  let watcher: FSWatcher;

  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), 'stickpin-close-'));
    mkdirSync(join(base, 'stick'));
    watcher = watch(join(base, 'stick'));
    await new Promise<void>((resolve) => watcher.once('ready', resolve));
    await closeWatcher(watcher);
  });
  afterEach(() => rmSync(base, { recursive: true, force: true }));

  it('stays closed when chokidar itself adds the folder around what was removed', () => {
    watcher.add(base);
    expect(watcher.closed).toBe(true);
    expect(watcher.getWatched()).toEqual({});
  });

  it('throws nothing when a check fails that still ran', () => {
    expect(() => watcher.emit('error', new Error('EIO'))).not.toThrow();
  });
});
