import { describe, expect, it } from 'vitest';
import type { Digest } from '../../../src/domain/model/digest.ts';
import { MediaBlobs } from '../../../src/media/media-blobs.ts';
import type { PluggedMedium } from '../../../src/media/media-provider.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { newBuffer } from '../../../src/platform/files/file-access.ts';
import { found, verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { heldBytes } from '../../support/held-bytes.ts';

const WHOLE = Buffer.from('the bytes of a manifest');
const SPOILED = Buffer.from('the bytes of an attack!');
const DIGEST = digestOf(WHOLE);
/** Each medium has it beside the other one. */
const LAYER = digestOf('a layer');
const signal = new AbortController().signal;
const gone = new AppError({ code: 'media/gone', message: 'worker-2 does not offer it', disposition: 'wait' });
const MIB = 1024 * 1024;

/** Who gave wrong bytes, as media hear it. */
const distrusted: string[] = [];
/** Who gave too little. */
const slow: string[] = [];

function medium(label: string, peer: PluggedMedium['peer'] | undefined): PluggedMedium {
  return {
    mediumId: label,
    label,
    isDropFolder: false,
    ...(peer !== undefined && { peer }),
    open: () => Promise.reject(new Error('nobody opens it')),
    isThere: async () => true,
    distrusted: () => void distrusted.push(label),
    tooSlow: () => void slow.push(label),
    release: async () => undefined,
  };
}

/** All media as one, in the order of their arrival, and who was read. */
function union(
  ...media: readonly {
    readonly label: string;
    readonly bytes: Buffer;
    readonly isPeer: boolean;
    /** How many other blobs it lacks; default none. */
    readonly lacks?: number;
    /** How many chunks follow its bytes; default none. */
    readonly moreChunks?: number;
    /** The size of these chunks; default 1 MiB. */
    readonly chunkBytes?: number;
    /** How long each of them takes; default no time. */
    readonly chunkMs?: number;
    readonly hasFailed?: true;
    /** The size that it lists; default that of its bytes. */
    readonly listedBytes?: number;
    /** What reads end with. */
    readonly error?: AppError;
    /** Whether the node can be read; default true. */
    readonly isReady?: () => boolean;
  }[]
) {
  const reads: string[] = [];
  const warnings: string[] = [];
  let nowMs = 0;
  const log = { warn: (_fields: unknown, text: unknown) => void warnings.push(String(text)) };
  const blobs = new MediaBlobs(log, { monotonic: () => nowMs });
  const offer = ({ label, bytes, isPeer, lacks = 0, moreChunks = 0, hasFailed, ...rest }: (typeof media)[number]) => {
    const { listedBytes = bytes.length, error, isReady = () => true, chunkBytes = MIB, chunkMs = 0 } = rest;
    const missing = Array.from({ length: lacks }, (_none, at) => ({
      digest: digestOf(`${at}`),
      why: 'absent' as const,
    }));
    const judged = { ...found(verified(), missing), path: 'bundle' };
    const source = {
      sizeOf: async (digest: Digest) => ([DIGEST, LAYER].includes(digest) ? listedBytes : undefined),
      async *read() {
        reads.push(label);
        yield bytes;
        if (error !== undefined) throw error;
        for (let chunk = 0; chunk < moreChunks; chunk += 1) {
          nowMs += chunkMs;
          yield newBuffer(chunkBytes);
        }
      },
    };
    const bundle = { kind: 'bundle' as const, path: 'bundle', reader: source as never, blobs: source };
    const plugged = medium(label, isPeer ? () => ({ isReady: isReady(), ...(hasFailed && { hasFailed }) }) : undefined);
    blobs.offer({ plugged, gone: signal, bundles: [bundle], judged: [judged] });
  };
  media.forEach(offer);
  const read = async (startByte = 0, digest = DIGEST) => {
    const chunks: Buffer[] = [];
    for await (const chunk of blobs.read(digest, startByte, signal)) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  /** How many bytes of a layer come from a byte on, to a caller with a pause after each chunk. */
  const countLayer = async (startByte = 1, pauseMs = 0) => {
    let count = 0;
    const end = (async () => {
      for await (const chunk of blobs.read(LAYER, startByte, signal)) {
        count += chunk.length;
        nowMs += pauseMs;
      }
    })();
    const error = await end.catch((thrown: unknown) => thrown);
    return { count, error };
  };
  /** Begins a stream, which goes on until the caller ends it. */
  const begin = async () => {
    const chunks = blobs.read(DIGEST, 0, signal)[Symbol.asyncIterator]();
    await chunks.next();
    const take = async (count: number) => {
      for (let chunk = 0; chunk < count; chunk += 1) await chunks.next();
    };
    return { take, end: async () => void (await chunks.return?.()) };
  };
  /** Finds a medium changed, or there again after it was away. */
  const offerAgain = (label: string, wasAway = false) => {
    if (wasAway) blobs.forget(label);
    media.filter((one) => one.label === label).forEach(offer);
  };
  const copies = () => blobs.copiesOf(DIGEST, signal);
  return { read, countLayer, begin, copies, offerAgain, reads, warnings };
}

describe('blobs of media and of other nodes', () => {
  it('come from a medium of this node, though another node was there first', async () => {
    const { read, reads } = union(
      { label: 'worker-2', bytes: WHOLE, isPeer: true },
      { label: 'sdb1', bytes: WHOLE, isPeer: false },
    );
    expect(await read()).toEqual(WHOLE);
    expect(reads).toEqual(['sdb1']);
  });

  it('come from the node that gives the least to this one, then from the one that lacks the most', async () => {
    const { begin, read, reads } = union(
      { label: 'worker-1', bytes: WHOLE, isPeer: true },
      { label: 'worker-2', bytes: WHOLE, isPeer: true, lacks: 1 },
      { label: 'worker-3', bytes: WHOLE, isPeer: true, lacks: 2 },
    );
    const streams = [await begin(), await begin(), await begin()];
    expect(reads).toEqual(['worker-3', 'worker-2', 'worker-1']);
    await streams[1]?.end();
    await read();
    for (const stream of streams) await stream.end();
    await read();
    expect(reads.slice(3)).toEqual(['worker-2', 'worker-3']);
  });

  it('come from a node that failed only when no other one has them', async () => {
    const failed = { label: 'worker-2', bytes: WHOLE, isPeer: true, lacks: 3, hasFailed: true } as const;
    const two = union(failed, { label: 'worker-3', bytes: WHOLE, isPeer: true });
    const stream = await two.begin();
    await two.read();
    await stream.end();
    expect(two.reads).toEqual(['worker-3', 'worker-3']);
    const alone = union(failed);
    expect(await alone.read()).toEqual(WHOLE);
  });

  describe('of a node that gives 1 KiB in 10 s', () => {
    const KIB = 1024;
    const other = { label: 'worker-3', bytes: WHOLE, isPeer: true, listedBytes: 100 * KIB };
    const trickle = { ...other, label: 'worker-2', lacks: 1, moreChunks: 100, chunkBytes: KIB, chunkMs: 10_000 };

    it('continue at another one after a minute', async () => {
      slow.length = 0;
      const peers = union({ ...trickle, isReady: () => slow.length === 0 }, { ...other, moreChunks: 1 });
      const { count, error } = await peers.countLayer();
      expect([count, error]).toMatchObject([WHOLE.length + 6 * KIB, { code: 'media/gone' }]);
      expect(slow).toEqual(['worker-2']);
      await peers.countLayer(count);
      expect(peers.reads).toEqual(['worker-2', 'worker-3']);
      expect(peers.warnings).toEqual([]);
    });

    it.each([
      ['no other one has them', [trickle]],
      ['the other one gives nothing now', [trickle, { ...other, isReady: () => false }]],
      ['it gives 1 MiB in a minute', [{ ...trickle, chunkBytes: 256 * KIB }, other]],
      ['the time is the pause of the caller', [{ ...trickle, chunkMs: 0 }, other], 10_000],
    ])('come from it to the end when %s', async (_when, media, pauseMs = 0) => {
      slow.length = 0;
      const peers = union(...media);
      const { chunkBytes } = media[0] as typeof trickle;
      expect(await peers.countLayer(1, pauseMs)).toEqual({ count: WHOLE.length + 100 * chunkBytes, error: undefined });
      expect([peers.reads, slow]).toEqual([['worker-2'], []]);
    });
  });

  it('come from another node when the first one sends other bytes for a document', async () => {
    const { read, reads, warnings } = union(
      { label: 'worker-2', bytes: SPOILED, isPeer: true },
      { label: 'worker-3', bytes: WHOLE, isPeer: true },
    );
    distrusted.length = 0;
    await expect(read()).rejects.toMatchObject({ code: 'media/read' });
    expect(await read()).toEqual(WHOLE);
    expect(reads).toEqual(['worker-2', 'worker-3']);
    expect(distrusted).toEqual(['worker-2']);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('It is taken from worker-3 instead');
  });

  it.each([
    ['offers new blobs', false],
    ['was away', true],
  ])('come from the other node also when the one that sent wrong bytes %s', async (_what, wasAway) => {
    const peers = union(
      { label: 'worker-2', bytes: SPOILED, isPeer: true, lacks: 1 },
      { label: 'worker-3', bytes: WHOLE, isPeer: true },
    );
    await expect(peers.read()).rejects.toMatchObject({ code: 'media/read' });
    peers.offerAgain('worker-2', wasAway);
    expect(await peers.read()).toEqual(WHOLE);
    expect(peers.reads).toEqual(['worker-2', 'worker-3']);
  });

  it('come from a node that sent wrong bytes of another one only when no other node has them', async () => {
    const liar = { label: 'worker-2', bytes: SPOILED, isPeer: true, lacks: 1 };
    const peers = union(liar, { label: 'worker-3', bytes: WHOLE, isPeer: true, hasFailed: true });
    await expect(peers.read()).rejects.toMatchObject({ code: 'media/read' });
    await peers.read(1, LAYER);
    expect(peers.reads).toEqual(['worker-2', 'worker-3']);
    const alone = union(liar);
    await expect(alone.read()).rejects.toMatchObject({ code: 'media/read' });
    await alone.read(1, LAYER);
    expect(alone.reads).toEqual(['worker-2', 'worker-2']);
  });

  it('come from another node when the first one ends before the size that it lists', async () => {
    const { read, copies, reads, warnings } = union(
      { label: 'worker-2', bytes: Buffer.alloc(5), listedBytes: WHOLE.length, isPeer: true },
      { label: 'worker-3', bytes: WHOLE, isPeer: true },
    );
    await expect(read(1)).rejects.toMatchObject({ code: 'media/read', message: 'it ended after 6 of 23 bytes' });
    await read(6);
    expect(reads).toEqual(['worker-2', 'worker-3']);
    expect(warnings).toEqual([expect.stringMatching(/can't be read from worker-2: it ended .* from worker-3 instead/)]);
    expect((await copies()).map(({ label, isTrusted }) => [label, isTrusted])).toEqual([
      ['worker-3', true],
      ['worker-2', false],
    ]);
  });

  it('come from another node when the first one does not have what it lists', async () => {
    const liar = { label: 'worker-2', bytes: Buffer.alloc(0), listedBytes: WHOLE.length, isPeer: true, error: gone };
    const { read, reads, warnings } = union(liar, { label: 'worker-3', bytes: WHOLE, isPeer: true });
    await expect(read()).rejects.toBe(gone);
    expect(await read()).toEqual(WHOLE);
    expect(reads).toEqual(['worker-2', 'worker-3']);
    expect(warnings).toEqual([]);
    const alone = union(liar);
    for (let time = 0; time < 2; time += 1) await expect(alone.read()).rejects.toBe(gone);
    expect(alone.reads).toEqual(['worker-2', 'worker-2']);
  });

  it('are still trusted of a node that could not be read for a moment', async () => {
    const isReady = () => reads.length !== 1;
    const away = { label: 'worker-2', bytes: WHOLE, isPeer: true, error: gone, isReady };
    const { read, copies, reads } = union(away);
    await expect(read(1)).rejects.toBe(gone);
    reads.push('it is ready again');
    expect((await copies()).map(({ isTrusted }) => isTrusted)).toEqual([true]);
  });

  it('come from a medium again that was damaged and has changed', async () => {
    const media = union(
      { label: 'sdb1', bytes: SPOILED, isPeer: false },
      { label: 'worker-3', bytes: WHOLE, isPeer: true },
    );
    const [copy] = await media.copies();
    copy?.distrust('damaged');
    await media.read();
    media.offerAgain('sdb1');
    await media.read();
    expect(media.reads).toEqual(['worker-3', 'sdb1']);
  });

  it('are not in memory any more after the caller has taken the next chunk', async () => {
    const { begin } = union({ label: 'sdb1', bytes: WHOLE, isPeer: false, moreChunks: 64 });
    const before = heldBytes();
    const stream = await begin();
    await stream.take(64);
    await eventually(() => expect(heldBytes() - before).toBeLessThan(16 * MIB), 10_000);
    await stream.end();
  });
});
