import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { MirrorParts } from '../../../../src/store/database/mirror-parts.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parts-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

const NAME = 'a'.repeat(64);

async function spyOnSync() {
  const handle = await open(folder, 'r');
  await handle.close();
  return vi.spyOn(Object.getPrototypeOf(handle), 'sync');
}

it('syncs the names of files that are there already, whose sync may have failed before', async () => {
  const sync = await spyOnSync();
  const parts = join(folder, 'state.parts');
  mkdirSync(parts);
  // An earlier process renamed it, and ended before it synced the folder.
  writeFileSync(join(parts, NAME), '[]');
  const mirror = new MirrorParts(parts, 0);
  sync.mockRejectedValueOnce(Object.assign(new Error('input/output error'), { code: 'EIO' }));
  await expect(mirror.write(new Map(), NEVER_ABORTED)).rejects.toThrow('input/output error');
  expect(sync).toHaveBeenCalledTimes(1);
  await mirror.write(new Map(), NEVER_ABORTED);
  expect(sync).toHaveBeenCalledTimes(3);
  await mirror.write(new Map(), NEVER_ABORTED);
  expect(sync).toHaveBeenCalledTimes(3);
});
