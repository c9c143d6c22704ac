import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildDirectory } from '../../../../src/factory/output/staging.ts';
import { hasCarefulSyncfs, syncEach, syncTree } from '../../../../src/platform/files/file-access.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const work = folderForEach();
const path = process.env.PATH;
beforeEach(() => {
  mkdirSync(join(work, 'tree', 'sub'), { recursive: true });
  writeFileSync(join(work, 'tree', 'sub', 'file'), 'x');
  mkdirSync(join(work, 'bin'));
});
afterEach(() => {
  process.env.PATH = path;
});

/** Puts a sync(1) of our own before the others. */
function putSync(script: string): void {
  writeFileSync(join(work, 'bin', 'sync'), `#!/bin/sh\n${script}\n`);
  chmodSync(join(work, 'bin', 'sync'), 0o755);
  process.env.PATH = `${join(work, 'bin')}${delimiter}${path}`;
}

const signal = new AbortController().signal;

describe('syncTree', () => {
  it('syncs a folder, also where there is no sync(1), and where it fails', async () => {
    await syncTree(join(work, 'tree'), signal);
    putSync('exit 1');
    await syncTree(join(work, 'tree'), signal);
    process.env.PATH = join(work, 'nowhere');
    await syncTree(join(work, 'tree'), signal);
  });

  it('syncs each file and folder where that is all there is', async () => {
    await syncEach(join(work, 'tree'), signal);
    await expect(syncEach(join(work, 'nowhere'), signal)).rejects.toThrow('ENOENT');
    await expect(syncEach(join(work, 'tree'), AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });

  it('stops when it is aborted', async () => {
    putSync('exec sleep 600');
    const stop = new AbortController();
    const syncing = syncTree(join(work, 'tree'), stop.signal);
    stop.abort(new Error('enough'));
    await expect(syncing).rejects.toThrow('enough');
  });

  it.each([
    ['4.18.0-553.el8.x86_64', false],
    ['5.7.19', false],
    ['5.8.0', true],
    ['5.14.0-427.el9.x86_64', true],
    ['6.1.0-28-amd64', true],
    ['10.0', true],
    ['strange', false],
  ])('relies on syncfs of Linux %s: %s', (kernel, isCareful) => {
    expect(hasCarefulSyncfs(kernel)).toBe(isCareful);
  });
});

describe('buildDirectory', () => {
  it('syncs everything after it was made, and before it is put in place', async () => {
    const target = join(work, 'target');
    putSync(`{ ls -d ${target} 2>/dev/null; echo "$1"; cat "$2/file"; } >> ${work}/log`);
    writeFileSync(join(work, 'log'), '');
    await buildDirectory(target, async (staging) => writeFileSync(join(staging, 'file'), 'content\n'), signal);
    expect(readFileSync(join(target, 'file'), 'utf8')).toBe('content\n');
    if (hasCarefulSyncfs(readFileSync('/proc/sys/kernel/osrelease', 'utf8'))) {
      expect(readFileSync(join(work, 'log'), 'utf8')).toMatch(/-f\ncontent\n$/);
    }
    expect(readFileSync(join(work, 'log'), 'utf8')).not.toContain(target);
  });
});
