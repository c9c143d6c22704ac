import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { link, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirectoryMedia } from '../../../src/media/directory-media.ts';
import type { MediaProvider } from '../../../src/media/media-provider.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { eventually } from '../../support/eventually.ts';
import { have, program } from '../../support/requirements.ts';

const never = new AbortController().signal;

describe('directories as media', () => {
  let base: string;
  let root: string;
  let provider: MediaProvider;
  let story: string[];

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'stickpin-directory-'));
    root = join(base, 'stick');
    story = [];
  });
  afterEach(async () => {
    await provider.dispose();
    await rm(base, { recursive: true, force: true });
  });

  const start = async (settleMs = 50): Promise<void> => {
    provider = new DirectoryMedia({
      directories: [{ path: root, layout: 'medium' }],
      clock: systemClock,
      settleMs,
    });
    await provider.start(
      {
        arrived: (medium) =>
          void story.push(
            `arrived ${medium.mediumId} ${medium.label} ${medium.isDropFolder ? 'drop folder' : 'medium'}`,
          ),
        changed: () => void story.push('changed'),
        left: () => void story.push('left'),
      },
      never,
    );
  };
  const arrived = (): string => `arrived dir:${root} ${root} medium`;

  it('is plugged in when it is there at the start, at once', async () => {
    await mkdir(root);
    await start(60_000);
    expect(story).toEqual([arrived()]);
  });

  it('is plugged in when it appears, and unplugged when it is removed, again and again', async () => {
    await start();
    expect(story).toEqual([]);
    for (let round = 1; round <= 2; round += 1) {
      await mkdir(join(root, 'stickpin'), { recursive: true });
      await eventually(() => expect(story).toHaveLength(round * 2 - 1));
      await rm(root, { recursive: true });
      await eventually(() => expect(story).toHaveLength(round * 2));
    }
    expect(story).toEqual([arrived(), 'left', arrived(), 'left']);
  });

  it('is plugged in when it is renamed into place with everything in it', async () => {
    await start();
    await mkdir(join(base, 'made/stickpin/x'), { recursive: true });
    await rename(join(base, 'made'), root);
    await eventually(() => expect(story).toEqual([arrived()]));
  });

  it('changes when a file deep in a bundle is written, though files are not watched one by one', async () => {
    const blobs = join(root, 'stickpin/ocp/blobs/sha256');
    await mkdir(blobs, { recursive: true });
    await start();
    await writeFile(join(blobs, 'a'.repeat(64)), 'one');
    await eventually(() => expect(story).toEqual([arrived(), 'changed']));
    await writeFile(join(blobs, 'a'.repeat(64)), 'another');
    await eventually(() => expect(story).toEqual([arrived(), 'changed', 'changed']));
  });

  it('finds bundles in folders that are created later', async () => {
    await mkdir(root);
    await start();
    const blobs = join(root, 'stickpin/ocp/blobs/sha256');
    await mkdir(blobs, { recursive: true });
    await eventually(() => expect(story).toEqual([arrived(), 'changed']));
    await writeFile(join(blobs, 'b'.repeat(64)), 'x');
    await eventually(() => expect(story).toEqual([arrived(), 'changed', 'changed']));
  });

  it('finds what no watch tells of soon after a report', async () => {
    await mkdir(join(root, 'stickpin'), { recursive: true });
    await writeFile(join(base, 'outside'), 'x');
    await link(join(base, 'outside'), join(root, 'stickpin/inside'));
    await start();
    await systemClock.sleep(500, never); // the checks of the start are over
    expect(story).toEqual([arrived()]);
    // The watch on the directory does not see a change by another name of the file.
    await writeFile(join(base, 'outside'), 'longer');
    await eventually(() => expect(story).toEqual([arrived(), 'changed']), 20_000);
  });

  it('is read again when it went and came back at once, since a reader may have found nothing', async () => {
    await mkdir(join(root, 'stickpin/x'), { recursive: true });
    await start();
    renameSync(root, join(base, 'away'));
    renameSync(join(base, 'away'), root);
    // A look in between sees that it is gone.
    const [changed, back] = [
      [arrived(), 'changed'],
      [arrived(), 'left', arrived()],
    ];
    await eventually(() => expect([changed.join(), back.join()]).toContain(story.join()));
  });

  it('waits until a copy has settled', async () => {
    await mkdir(root);
    await start(400);
    for (let index = 0; index < 10; index += 1) {
      await writeFile(join(root, `part${index}`), 'x'.repeat(index));
      await systemClock.sleep(30, never);
      expect(story).toEqual([arrived()]);
    }
    await eventually(() => expect(story).toEqual([arrived(), 'changed']));
  });

  it('reports nothing when nothing changed', async () => {
    await mkdir(root);
    await writeFile(join(root, 'file'), 'x');
    await start(10);
    await provider.rescan(never);
    await writeFile(join(base, 'marker'), '');
    await mkdir(join(root, 'new'));
    await eventually(() => expect(story).toEqual([arrived(), 'changed']));
  });

  it('does not count a file as a medium', async () => {
    await writeFile(root, 'not a directory');
    await start();
    await rm(root);
    await mkdir(root);
    await eventually(() => expect(story).toEqual([arrived()]));
  });
});

/** Watches the medium, searches it for bundles, and waits for the report of a change. */
const READER = `
const [media, finder, root] = process.argv.slice(1);
const { signal } = new AbortController();
const { DirectoryMedia } = await import(media);
const { findBundles } = await import(finder);
const clock = { sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) };
const provider = new DirectoryMedia({ directories: [{ path: root, layout: 'medium' }], clock, settleMs: 50 });
const { promise, resolve } = Promise.withResolvers();
await provider.start({ arrived: () => undefined, changed: resolve, left: () => undefined }, signal);
const found = await findBundles(root, 'medium', signal);
(await import('node:fs')).writeFileSync(root + '/stickpin/a/more', '');
await promise;
await provider.dispose();
console.log(found.map(({ path }) => path).join());
`;

describe.runIf(have(program('strace', 'apt-get install strace')))('a medium with many files at its top', () => {
  it('is never listed as a whole: what lies beside stickpin is not ours', async () => {
    const base = await mkdtemp(join(tmpdir(), 'stickpin-many-'));
    try {
      const root = join(base, 'stick');
      mkdirSync(join(root, 'stickpin/a'), { recursive: true });
      writeFileSync(join(root, 'stickpin/a/bundle.dsse.json'), '');
      const entries = 10_000;
      for (let at = 0; at < entries; at += 1) writeFileSync(join(root, `${'x'.repeat(200)}-${at}`), '');
      const media = await bundleIntoCache('src/media/directory-media.ts', 'directory-media');
      const finder = await bundleIntoCache('src/bundle/read/find-bundles.ts', 'find-bundles');
      const reader = [process.execPath, '--input-type=module', '-e', READER, media, finder, root];
      const trace = ['-f', '-qq', '-o', join(base, 'trace'), '-P', root, '-e', 'trace=getdents64'];
      const { stdout, stderr } = spawnSync('strace', [...trace, ...reader], { encoding: 'utf8', timeout: 60_000 });
      expect([stdout.trim(), stderr]).toEqual(['stickpin/a', '']);
      const reads = [...readFileSync(join(base, 'trace'), 'utf8').matchAll(/\/\* (\d+) entries \*\//g)];
      const read = reads.reduce((sum, [, count]) => sum + Number(count), 0);
      expect(read).toBeGreaterThan(0);
      expect(read).toBeLessThan(entries / 2);
    } finally {
      await rm(base, { recursive: true, force: true });
    }
  }, 120_000);
});
