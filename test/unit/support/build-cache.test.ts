import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { buildOnce, cachedPath, isBuilt } from '../../support/rootfs/build-cache.ts';

const recipe = { version: 1 };

describe('the build cache of the tests', () => {
  let directory: string;
  let builds: number;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stickpin-build-cache-'));
    vi.stubEnv('STICKPIN_TEST_CACHE', join(directory, 'cache'));
    builds = 0;
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(directory, { recursive: true });
  });

  const build = async (target: string): Promise<void> => {
    builds += 1;
    await mkdir(join(target, 'root/etc'), { recursive: true });
    await writeFile(join(target, 'root/etc/hostname'), 'node1\n');
  };
  const get = () => buildOnce('thing', recipe, build);
  const contentOf = (path: string) => readFile(join(path, 'root/etc/hostname'), 'utf8');

  it('builds once for each recipe', async () => {
    const path = await get();
    expect(await get()).toBe(path);
    expect(builds).toBe(1);
    expect(await contentOf(path)).toBe('node1\n');
    expect(await buildOnce('thing', { version: 2 }, build)).not.toBe(path);
    expect(builds).toBe(2);
  });

  it.each<readonly [string, (path: string) => Promise<void>]>([
    ['is shorter than it was', (path) => truncate(join(path, 'root/etc/hostname'), 2)],
    ['is empty', (path) => truncate(join(path, 'root/etc/hostname'), 0)],
    ['was written to', (path) => writeFile(join(path, 'root/etc/hostname'), 'node2\n')],
    ['has lost its mode', (path) => chmod(join(path, 'root/etc/hostname'), 0)],
    ['is gone', (path) => rm(join(path, 'root/etc/hostname'))],
    ['is not alone any more', (path) => writeFile(join(path, 'root/etc/more'), '')],
    ['was never noted', (path) => rm(join(path, '.inventory'))],
    ['was noted badly', (path) => writeFile(join(path, '.inventory'), '')],
  ])('builds anew when a file %s', async (_how, damage) => {
    const path = await get();
    await damage(path);
    expect(await isBuilt('thing', recipe)).toBe(false);
    expect(await contentOf(await get())).toBe('node1\n');
    expect(builds).toBe(2);
    expect(await isBuilt('thing', recipe)).toBe(true);
    await get();
    expect(builds).toBe(2);
  });

  it('builds again when another file is at its path', async () => {
    const path = cachedPath('thing', recipe);
    await mkdir(join(directory, 'cache'));
    await writeFile(path, 'a file');
    expect(await contentOf(await get())).toBe('node1\n');
  });

  it('leaves nothing of a build that was killed, nor of one that failed', async () => {
    const rest = `${cachedPath('thing', recipe)}.partial`;
    await mkdir(join(rest, 'root'), { recursive: true });
    await mkdir(`${rest}-0a1b2c3d`);
    const failing = async (target: string): Promise<void> => {
      await build(target);
      throw new Error('no more room');
    };
    await expect(buildOnce('thing', recipe, failing)).rejects.toThrow('no more room');
    expect(await isBuilt('thing', recipe)).toBe(false);
    expect(await contentOf(await get())).toBe('node1\n');
    expect((await readdir(join(directory, 'cache'))).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it('builds again on demand', async () => {
    const path = await get();
    expect(await buildOnce('thing', recipe, build, { anew: true })).toBe(path);
    expect(builds).toBe(2);
    expect(existsSync(join(path, 'root'))).toBe(true);
  });

  it('keeps the four of a kind that were used last', async () => {
    const paths: string[] = [];
    for (const version of [1, 2, 3, 4, 5]) paths.push(await buildOnce('thing', { version }, build));
    expect(paths.map((path) => existsSync(path))).toEqual([false, true, true, true, true]);
  });
});
