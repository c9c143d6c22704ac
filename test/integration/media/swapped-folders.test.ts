import { chmodSync, mkdirSync, readdirSync, readlinkSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Trust } from '../../../src/bundle/keys/trust.ts';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import { readBundles } from '../../support/bundles/read-bundles.ts';
import { makeSampleBundle, type SampleBundle, trustIn } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const never = new AbortController().signal;
const SECRET = 'what only root may read';
/** Folders on the way to a blob, the root of the medium first. */
const SPOTS = ['.', 'stickpin', 'stickpin/BUNDLE', 'stickpin/BUNDLE/blobs', 'stickpin/BUNDLE/blobs/sha256'] as const;

/**
 * Somebody may write to a medium while the daemon, which is root, reads it: folders become links to
 * where that person may not read.
 */
describe('folders of a medium that are swapped for links', () => {
  const base = folderForEach();
  let root: string;
  let bundle: SampleBundle;
  let digest: Digest;
  let trust: Trust;

  beforeEach(async () => {
    // Whoever owns the folder around it may swap the root too.
    root = join(base, 'open/medium');
    bundle = await makeSampleBundle({ dir: join(root, 'stickpin') });
    digest = bundle.contents.layers[0]?.digest ?? expect.unreachable();
    trust = await trustIn(bundle.keys, base);
    chmodSync(join(base, 'open'), 0o777);
  });
  afterEach(async () => {
    // A folder of a medium may stay open for a moment.
    await eventually(() => expect(openBelow(base)).toEqual([]));
  });

  const spotAt = (spot: string) => join(root, spot.replace('BUNDLE', basename(bundle.path)));

  /** A tree of the same names elsewhere, in which the blob is a secret. */
  const makeElsewhere = (spot: string): string => {
    const elsewhere = join(base, 'elsewhere');
    const blob = join(elsewhere, 'blob', join(bundle.path, 'blobs/sha256', hexOf(digest)).slice(spotAt(spot).length));
    mkdirSync(dirname(blob), { recursive: true });
    writeFileSync(blob, SECRET);
    return join(elsewhere, 'blob');
  };

  const readBlob = async (reader = openBundle(bundle.path, root)): Promise<string> => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of reader.read(digest, 0, never)) chunks.push(chunk);
    } catch {
      return 'refused';
    }
    return Buffer.concat(chunks).toString('latin1');
  };

  it.each(SPOTS)('%s is not followed, however often it was read before', async (spot) => {
    const reader = openBundle(bundle.path, root);
    expect(await readBlob(reader)).not.toBe('refused');
    const elsewhere = makeElsewhere(spot);
    renameSync(spotAt(spot), `${join(base, 'open')}/kept`);
    symlinkSync(elsewhere, spotAt(spot));
    expect(await readBlob()).toBe('refused');
    // For a moment the reader may still hold the folder that was there before.
    const seen = new Set<string>();
    await eventually(async () => {
      const text = await readBlob(reader);
      seen.add(text);
      expect(text).toBe('refused');
    });
    expect(seen).not.toContain(SECRET);
    expect(await reader.sizeOf(digest, never).catch(() => undefined)).not.toBe(SECRET.length);
    const found = await readBundles(root, { trust, layout: 'medium' }, never).catch(() => []);
    expect(found.filter(({ kind }) => kind === 'verified')).toEqual([]);
  });

  it.each(SPOTS)('%s is not followed while it is swapped again and again', async (spot) => {
    const swapper = await swapping(spotAt(spot), join(base, 'open/kept'), makeElsewhere(spot));
    const seen = { followed: 0, read: 0, refused: 0 };
    const reader = openBundle(bundle.path, root);
    try {
      const isEnough = (at: number) => at >= 400 && (at >= 20_000 || (seen.read > 0 && seen.refused > 0));
      for (let at = 0; !isEnough(at); at += 1) {
        const text = await readBlob(at % 2 === 0 ? reader : undefined);
        if (text === 'refused') seen.refused += 1;
        else if (text === SECRET) seen.followed += 1;
        else seen.read += 1;
      }
    } finally {
      await swapper.stop();
    }
    expect(seen.followed).toBe(0);
    // Both were seen, so it was swapped.
    expect([seen.read > 0, seen.refused > 0]).toEqual([true, true]);
  });

  it('are held while a bundle is judged, and let go afterwards', async () => {
    const found = await readBundles(root, { trust, layout: 'medium' }, never);
    expect(found).toMatchObject([{ kind: 'verified', missing: [] }]);
    await eventually(() => expect(openBelow(base)).toEqual([]));
  });
});

function openBelow(path: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(path) ? [target] : [];
    } catch {
      return [];
    }
  });
}

/** A thread that swaps a folder for a link to `elsewhere` and back, without a pause. */
async function swapping(folder: string, kept: string, elsewhere: string) {
  const program = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { renameSync, symlinkSync, unlinkSync } = require('node:fs');
    const { folder, kept, elsewhere, stop } = workerData;
    const state = new Int32Array(stop);
    parentPort.postMessage('begun');
    while (Atomics.load(state, 0) === 0) {
      renameSync(folder, kept);
      symlinkSync(elsewhere, folder);
      unlinkSync(folder);
      renameSync(kept, folder);
    }`;
  const stop = new SharedArrayBuffer(4);
  const worker = new Worker(program, { eval: true, workerData: { folder, kept, elsewhere, stop } });
  await new Promise((resolve) => worker.once('message', resolve));
  return {
    stop: async () => {
      Atomics.store(new Int32Array(stop), 0, 1);
      await new Promise((resolve) => worker.once('exit', resolve));
    },
  };
}
