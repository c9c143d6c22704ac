import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { VerifiedBundle } from '../../../src/domain/bundle.ts';
import { type Digest, digestFromHex } from '../../../src/domain/digest.ts';
import type { FoundBundle } from '../../../src/domain/medium.ts';
import { createMedia, type Judgement, type Media } from '../../../src/media/media.ts';
import type { BlobDirectory } from '../../../src/media/media-blobs.ts';
import type { MediaProvider, MediaSink, PluggedMedium } from '../../../src/media/media-provider.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

const never = new AbortController().signal;
const A = digestFromHex('a'.repeat(64));
const B = digestFromHex('b'.repeat(64));

function bundleAt(path: string, missing: readonly Digest[] = []): FoundBundle {
  return {
    kind: 'verified',
    path,
    bundle: { bundleId: A } as VerifiedBundle,
    documents: [],
    missing: missing.map((digest) => ({ digest, why: 'truncated' })),
  };
}

function mediumOf(mediumId: string, over: Partial<PluggedMedium> = {}): PluggedMedium {
  return {
    mediumId,
    label: mediumId.slice(2),
    layout: 'medium',
    mount: async () => `/media/${mediumId}`,
    isThere: async () => true,
    release: async () => undefined,
    ...over,
  };
}

/** Bytes of a blob, and a read that never ends, as one in a device that is gone. */
function directory(blobs: ReadonlyMap<Digest, string>, hanging = false): BlobDirectory {
  return {
    sizeOf: async (digest) => blobs.get(digest)?.length,
    async *read(digest, startByte) {
      const text = blobs.get(digest) ?? '';
      yield Buffer.from(text.slice(startByte));
      if (hanging) await new Promise(() => undefined);
    },
  };
}

async function textOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}

describe('media', () => {
  let media: Media;
  let sink: MediaSink;
  let judge: (root: string) => Promise<Judgement>;
  let directories: Map<string, BlobDirectory>;
  let changes: number;
  let released: string[];

  beforeEach(async () => {
    const provider: MediaProvider = {
      start: async (to) => {
        sink = to;
      },
      rescan: async () => undefined,
      dispose: async () => undefined,
    };
    directories = new Map();
    released = [];
    judge = async () => ({ bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' });
    media = createMedia({
      providers: [provider],
      judge: (root) => judge(root),
      openBundle: (path) => directories.get(path) ?? directory(new Map()),
      log: createRecordingLog(),
      retryMs: [5, 5],
    });
    changes = 0;
    media.onChange(() => {
      changes += 1;
    });
    await media.start(never);
  });
  afterEach(() => media.dispose());

  const readAll = async (...mediumIds: string[]): Promise<void> => {
    for (const mediumId of mediumIds) {
      await media.mount(mediumId, never);
      await media.read(mediumId, never);
    }
  };
  const states = (): string[] => media.list().map(({ mediumId, state }) => `${mediumId} ${state.kind}`);

  it('reads again what changed while it was read', async () => {
    let finish: () => void = () => undefined;
    judge = () =>
      new Promise((resolve) => {
        finish = () => resolve({ bundles: [], trustRevision: 'r1' });
      });
    sink.arrived(mediumOf('1-sdb1'));
    await media.mount('1-sdb1', never);
    const reading = media.read('1-sdb1', never);
    sink.changed('1-sdb1');
    finish();
    await reading;
    expect(states()).toEqual(['1-sdb1 mounted']);
    const again = media.read('1-sdb1', never);
    finish();
    await again;
    expect(states()).toEqual(['1-sdb1 read']);
  });

  it('mounts what comes back under the same id when the last one is put away, not before', async () => {
    let putAway: () => void = () => undefined;
    const story: string[] = [];
    const release = () =>
      new Promise<void>((resolve) => {
        putAway = () => {
          story.push('put away');
          resolve();
        };
      });
    sink.arrived(mediumOf('1-sdb1', { release }));
    sink.left('1-sdb1');
    sink.arrived(
      mediumOf('1-sdb1', {
        mount: async () => {
          story.push('mounted');
          return '/media/1-sdb1';
        },
      }),
    );
    const mounting = media.mount('1-sdb1', never);
    putAway();
    await mounting;
    expect(story).toEqual(['put away', 'mounted']);
  });

  it('tries a mount that may work next time a few times more, by itself', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let mounts = 0;
    const error = new AppError({ code: 'media/mount', message: 'job failed', disposition: 'retry' });
    sink.arrived(
      mediumOf('1-sdb1', {
        mount: async () => {
          mounts += 1;
          throw error;
        },
      }),
    );
    for (const expected of [1, 2, 3]) {
      await media.mount('1-sdb1', never);
      expect(mounts).toBe(expected);
      expect(media.list()[0]?.state.kind).toBe('failed');
      if (expected === 3) break;
      vi.advanceTimersByTime(5);
      expect(media.list()[0]?.state.kind).toBe('attached');
    }
    expect(vi.getTimerCount()).toBe(0);
  });

  it('takes a medium from attached over mounted to read, telling of each step', async () => {
    sink.arrived(mediumOf('1-sdb1'));
    expect(states()).toEqual(['1-sdb1 attached']);
    await media.mount('1-sdb1', never);
    expect(states()).toEqual(['1-sdb1 mounted']);
    await media.read('1-sdb1', never);
    expect(media.list()).toEqual([
      {
        mediumId: '1-sdb1',
        label: 'sdb1',
        isDropFolder: false,
        state: { kind: 'read', bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' },
      },
    ]);
    expect(changes).toBe(3);
    sink.left('1-sdb1');
    expect(media.list()).toEqual([]);
    expect(changes).toBe(4);
  });

  it('lists in the order of arrival', () => {
    for (const id of ['9-sdz', '1-sdb1', '5-sdc']) sink.arrived(mediumOf(id));
    expect(states()).toEqual(['9-sdz attached', '1-sdb1 attached', '5-sdc attached']);
  });

  it('is read with no bundles when it is empty or foreign', async () => {
    judge = async () => ({ bundles: [], trustRevision: 'r1' });
    sink.arrived(mediumOf('1-sdb1'));
    await readAll('1-sdb1');
    expect(media.list()[0]?.state).toEqual({ kind: 'read', bundles: [], trustRevision: 'r1' });
  });

  it('turns a failed mount into a state, and tries again when asked', async () => {
    let fails = true;
    const mount = async (): Promise<string> => {
      if (fails) throw new AppError({ code: 'media/mount', message: 'bad superblock', disposition: 'retry' });
      return '/media/x';
    };
    sink.arrived(mediumOf('1-sdb1', { mount }));
    await media.mount('1-sdb1', never);
    expect(media.list()[0]?.state).toEqual({
      kind: 'failed',
      reason: { code: 'media/mount', message: 'bad superblock' },
    });
    fails = false;
    await readAll('1-sdb1');
    expect(states()).toEqual(['1-sdb1 read']);
  });

  it('does nothing for a medium that is not there, and lets an abort through', async () => {
    await readAll('7-none');
    sink.arrived(mediumOf('1-sdb1', { mount: () => Promise.reject(new Error('late')) }));
    const stop = new AbortController();
    stop.abort(new Error('stopping'));
    await expect(media.mount('1-sdb1', stop.signal)).rejects.toThrow('stopping');
    expect(states()).toEqual(['1-sdb1 attached']);
  });

  it('forgets what it found when the medium leaves while it is read', async () => {
    let finish: (judgement: Judgement) => void = () => undefined;
    judge = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'old']])));
    sink.arrived(mediumOf('1-sdb1', { release: async () => void released.push('1-sdb1') }));
    await media.mount('1-sdb1', never);
    const reading = media.read('1-sdb1', never);
    sink.left('1-sdb1');
    finish({ bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' });
    await reading;
    expect(media.list()).toEqual([]);
    expect(await media.blobs.sizeOf(A, never)).toBeUndefined();
    expect(released).toEqual(['1-sdb1']);
  });

  it('asks to be read again when something on it changed, and serves what it had meanwhile', async () => {
    directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alpha']])));
    sink.arrived(mediumOf('1-sdb1'));
    await readAll('1-sdb1');
    sink.changed('1-sdb1');
    expect(states()).toEqual(['1-sdb1 mounted']);
    expect(await media.blobs.sizeOf(A, never)).toBe(5);
    judge = async () => ({ bundles: [], trustRevision: 'r2' });
    await media.read('1-sdb1', never);
    expect(await media.blobs.sizeOf(A, never)).toBeUndefined();
  });

  describe('blobs', () => {
    it('come from whichever medium has them', async () => {
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alpha']])));
      directories.set('/media/2-sdc1/stickpin/x', directory(new Map([[B, 'beta']])));
      sink.arrived(mediumOf('1-sdb1'));
      sink.arrived(mediumOf('2-sdc1'));
      await readAll('1-sdb1', '2-sdc1');
      expect(await media.blobs.sizeOf(B, never)).toBe(4);
      expect(await textOf(media.blobs.read(A, 2, never))).toBe('pha');
      expect(await textOf(media.blobs.read(B, 0, never))).toBe('beta');
    });

    it('are not taken from a copy that was found cut short', async () => {
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alp']])));
      directories.set('/media/2-sdc1/stickpin/x', directory(new Map([[A, 'alpha']])));
      judge = async (root) => ({
        bundles: [bundleAt('stickpin/x', root.includes('1-sdb1') ? [A] : [])],
        trustRevision: 'r',
      });
      sink.arrived(mediumOf('1-sdb1'));
      sink.arrived(mediumOf('2-sdc1'));
      await readAll('1-sdb1', '2-sdc1');
      expect(await textOf(media.blobs.read(A, 0, never))).toBe('alpha');
    });

    it('are not taken from bundles that were rejected', async () => {
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alpha']])));
      const reason = { code: 'bundle/signature', message: 'unknown key' };
      judge = async () => ({ bundles: [{ kind: 'rejected', path: 'stickpin/x', reason }], trustRevision: 'r' });
      sink.arrived(mediumOf('1-sdb1'));
      await readAll('1-sdb1');
      expect(await media.blobs.sizeOf(A, never)).toBeUndefined();
    });

    it('are waited for when no medium has them', async () => {
      await expect(textOf(media.blobs.read(A, 0, never))).rejects.toMatchObject({
        code: 'media/gone',
        disposition: 'wait',
        message: expect.stringContaining(A),
      });
    });

    it('are found past a medium that can not be asked', async () => {
      const broken: BlobDirectory = {
        sizeOf: () => Promise.reject(new Error('EIO')),
        read: () => directory(new Map()).read(A, 0, never),
      };
      directories.set('/media/1-sdb1/stickpin/x', broken);
      directories.set('/media/2-sdc1/stickpin/x', directory(new Map([[A, 'alpha']])));
      sink.arrived(mediumOf('1-sdb1'));
      sink.arrived(mediumOf('2-sdc1'));
      await readAll('1-sdb1', '2-sdc1');
      expect(await media.blobs.sizeOf(A, never)).toBe(5);
    });

    it('end with media/gone when the medium leaves, even while a read hangs', async () => {
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alpha']]), true));
      sink.arrived(mediumOf('1-sdb1'));
      await readAll('1-sdb1');
      const chunks = media.blobs.read(A, 0, never)[Symbol.asyncIterator]();
      expect((await chunks.next()).value?.toString()).toBe('alpha');
      const hanging = chunks.next().catch((error: unknown) => error);
      sink.left('1-sdb1');
      expect(await hanging).toMatchObject({ code: 'media/gone', disposition: 'wait' });
    });

    it.each([
      ['media/gone', false],
      ['media/read', true],
    ])('end with %s when a read fails and isThere says %s', async (code, there) => {
      const failing: BlobDirectory = {
        sizeOf: async () => 5,
        // biome-ignore lint/correctness/useYield: it fails before the first byte
        async *read() {
          throw new AppError({ code: 'media/read', message: 'EIO', disposition: 'retry' });
        },
      };
      directories.set('/media/1-sdb1/stickpin/x', failing);
      sink.arrived(mediumOf('1-sdb1', { isThere: async () => there }));
      await readAll('1-sdb1');
      await expect(textOf(media.blobs.read(A, 0, never))).rejects.toMatchObject({ code });
    });

    it('tell when what is offered may have changed', async () => {
      let told = 0;
      media.blobs.onChange(() => {
        told += 1;
      });
      sink.arrived(mediumOf('1-sdb1'));
      await readAll('1-sdb1');
      sink.left('1-sdb1');
      await eventually(() => expect(told).toBe(2));
    });

    it('close their file when the reader stops early', async () => {
      let closed = false;
      const watched: BlobDirectory = {
        sizeOf: async () => 5,
        async *read() {
          try {
            yield Buffer.from('alpha');
            yield Buffer.from('never asked for');
          } finally {
            closed = true;
          }
        },
      };
      directories.set('/media/1-sdb1/stickpin/x', watched);
      sink.arrived(mediumOf('1-sdb1'));
      await readAll('1-sdb1');
      for await (const _chunk of media.blobs.read(A, 0, never)) break;
      await eventually(() => expect(closed).toBe(true));
    });
  });
});
