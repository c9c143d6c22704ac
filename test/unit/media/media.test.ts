import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { BundleReader } from '../../../src/bundle/read/bundle-reader.ts';
import type { VerifiedBundle } from '../../../src/domain/model/bundle.ts';
import { type Digest, digestFromHex } from '../../../src/domain/model/digest.ts';
import type { FoundBundle } from '../../../src/domain/model/medium.ts';
import { type Judgement, Media } from '../../../src/media/media.ts';
import type {
  MediaProvider,
  MediaSink,
  MediumBundle,
  OpenMedium,
  PluggedMedium,
} from '../../../src/media/media-provider.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import type { BlobSource } from '../../../src/ports/blobs.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';

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
    isDropFolder: false,
    open: async () => openedAt(`/media/${mediumId}`),
    isThere: async () => true,
    release: async () => undefined,
    ...over,
  };
}

/** The blobs of the bundle at a path; a bundle that is not named has none. */
const directories = new Map<string, BlobSource>();

/** A medium with one bundle, whose documents nobody reads here. */
function openedAt(place: string): OpenMedium {
  const at = `${place}/stickpin/x`;
  const bundle: MediumBundle = {
    kind: 'bundle',
    path: 'stickpin/x',
    reader: { path: at } as BundleReader,
    blobs: {
      sizeOf: (digest, signal) => blobsAt(at).sizeOf(digest, signal),
      read: (digest, startByte, signal) => blobsAt(at).read(digest, startByte, signal),
    },
    fileOf: (digest) => `stickpin/x/blobs/${digest.replace(':', '/')}`,
  };
  return { place, findBundles: async () => [bundle] };
}

function blobsAt(path: string): BlobSource {
  return directories.get(path) ?? directory(new Map());
}

/** Bytes of a blob, and a read that never ends, as one in a device that is gone. */
function directory(blobs: ReadonlyMap<Digest, string>, hanging = false): BlobSource {
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
  let judge: (root: string, last?: Judgement) => Promise<Judgement>;
  let changes: number;
  let released: string[];
  /** Mount points that are there, in the order of the looks; the last one stays. */
  let mounts: string[][];
  let looks: number;
  let log: RecordingLog;

  beforeEach(async () => {
    const provider: MediaProvider = {
      start: async (to) => {
        sink = to;
      },
      rescan: async () => undefined,
      dispose: async () => undefined,
    };
    directories.clear();
    log = createRecordingLog();
    released = [];
    mounts = [['/', '/media/1-sdb1', '/media/2-sdc1']];
    looks = 0;
    judge = async () => ({ bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' });
    media = new Media({
      providers: [provider],
      judge: ([bundle], _signal, last) => judge(bundle?.kind === 'bundle' ? bundle.reader.path : 'no bundle', last),
      log,
      retryMs: [5, 5],
      readMounts: async () => {
        looks += 1;
        const now = (mounts.length > 1 ? mounts.shift() : mounts[0]) ?? [];
        return now.map((mountPoint) => ({
          device: '8:17',
          root: '/',
          mountPoint,
          type: 'vfat',
          source: '/dev/sdb1',
          superOptions: ['ro'],
        }));
      },
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

  describe('mounts', () => {
    const mountable = (over: Partial<PluggedMedium> = {}) =>
      mediumOf('1-sdb1', {
        mountPoints: (all) => all.map(({ mountPoint }) => mountPoint).filter((place) => place.endsWith('sdb1')),
        ...over,
      });

    it('that somebody unmounts serve no blobs, and are mounted again only by a rescan', async () => {
      let counter = 0;
      const open = async () => {
        counter += 1;
        return openedAt('/media/1-sdb1');
      };
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'blob']])));
      sink.arrived(mountable({ open }));
      await readAll('1-sdb1');
      await media.refresh(never);
      expect([states(), looks]).toEqual([['1-sdb1 read'], 2]);
      expect(log.kinds()).toEqual(['mediumMounted']);
      expect(await media.blobs.sizeOf(A, never)).toBe(4);
      mounts = [['/']];
      await media.refresh(never);
      expect(states()).toEqual(['1-sdb1 unmounted']);
      expect(await media.blobs.sizeOf(A, never)).toBeUndefined();
      await media.refresh(never);
      await readAll('1-sdb1');
      expect([states(), counter]).toEqual([['1-sdb1 unmounted'], 1]);
      await media.rescan(never);
      mounts = [['/', '/media/1-sdb1']];
      await readAll('1-sdb1');
      expect([states(), counter]).toEqual([['1-sdb1 read'], 2]);
      expect(await media.blobs.sizeOf(A, never)).toBe(4);
    });

    it('are checked before a read, so that an empty mount point is not read as a medium without bundles', async () => {
      sink.arrived(mountable());
      await media.mount('1-sdb1', never);
      mounts = [['/']];
      await media.read('1-sdb1', never);
      expect(states()).toEqual(['1-sdb1 unmounted']);
    });

    it('that disappear while they are read leave neither a result nor an error', async () => {
      for (const outcome of ['judged', 'failed'] as const) {
        let finish: (() => void) | undefined;
        judge = () =>
          new Promise((resolve, reject) => {
            const error = new AppError({ code: 'media/read', message: 'ENOENT', disposition: 'retry' });
            finish = () => (outcome === 'failed' ? reject(error) : resolve({ bundles: [], trustRevision: 'r1' }));
          });
        mounts = [['/', '/media/1-sdb1']];
        sink.arrived(mountable());
        await media.mount('1-sdb1', never);
        const reading = media.read('1-sdb1', never);
        await eventually(() => expect(finish).toBeDefined());
        mounts = [['/']];
        await media.refresh(never);
        finish?.();
        await reading;
        expect(states(), outcome).toEqual(['1-sdb1 unmounted']);
      }
    });

    it('of other programs are followed to their present place', async () => {
      mounts = [['/', '/mnt/sdb1']];
      sink.arrived(mountable({ open: async () => openedAt(mounts[0]?.[1] ?? '') }));
      await readAll('1-sdb1');
      mounts = [['/', '/elsewhere/sdb1']];
      await media.refresh(never);
      expect(states()).toEqual(['1-sdb1 attached']);
      await readAll('1-sdb1');
      mounts = [['/']];
      await media.refresh(never);
      expect(states()).toEqual(['1-sdb1 unmounted']);
      mounts = [['/', '/mnt/sdb1']];
      await media.refresh(never);
      expect(states()).toEqual(['1-sdb1 attached']);
      await readAll('1-sdb1');
      expect(states()).toEqual(['1-sdb1 read']);
    });

    it('are checked twice before they count as gone, and count as present when mountinfo can not be read', async () => {
      sink.arrived(mountable());
      await readAll('1-sdb1');
      const here = ['/', '/media/1-sdb1'];
      for (const answers of [[['/'], here], [[]], [['/'], []]]) {
        mounts = answers;
        await media.refresh(never);
        expect(states(), JSON.stringify(answers)).toEqual(['1-sdb1 read']);
      }
    });

    it('that disappear with their device are reported with the device', async () => {
      sink.arrived(mountable({ isThere: async () => false }));
      await readAll('1-sdb1');
      mounts = [['/']];
      await media.refresh(never);
      expect(states()).toEqual(['1-sdb1 read']);
    });

    it('are not checked for media without mounts', async () => {
      sink.arrived(mediumOf('1-sdb1'));
      await readAll('1-sdb1');
      await media.refresh(never);
      expect(looks).toBe(0);
    });
  });

  it('reads again what changed while it was read', async () => {
    const judging: (() => void)[] = [];
    judge = () =>
      new Promise((resolve) => {
        judging.push(() => resolve({ bundles: [], trustRevision: 'r1' }));
      });
    sink.arrived(mediumOf('1-sdb1'));
    await media.mount('1-sdb1', never);
    const reading = media.read('1-sdb1', never);
    await eventually(() => expect(judging).toHaveLength(1));
    sink.changed('1-sdb1');
    judging[0]?.();
    await reading;
    expect(states()).toEqual(['1-sdb1 mounted']);
    const again = media.read('1-sdb1', never);
    await eventually(() => expect(judging).toHaveLength(2));
    judging[1]?.();
    await again;
    expect(states()).toEqual(['1-sdb1 read']);
  });

  it('uses what another node gave until what it offers now was read', async () => {
    directories.set('/media/peer:worker-2/stickpin/x', directory(new Map([[A, 'blob']])));
    sink.arrived(mediumOf('peer:worker-2', { peer: () => ({ isReady: true }) }));
    await readAll('peer:worker-2');
    const before = media.list()[0]?.state;
    sink.changed('peer:worker-2');
    expect(media.list()[0]?.state).toEqual({ ...before, isStale: true });
    expect(await media.blobs.sizeOf(A, never)).toBe(4);
    // It changes again while it is read: the result counts, and it is read once more.
    judge = async () => {
      sink.changed('peer:worker-2');
      return { bundles: [bundleAt('stickpin/x', [B])], trustRevision: 'r1' };
    };
    await media.read('peer:worker-2', never);
    expect(media.list()[0]?.state).toMatchObject({
      kind: 'read',
      isStale: true,
      bundles: [{ missing: [{ digest: B }] }],
    });
    judge = async () => ({ bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' });
    await media.read('peer:worker-2', never);
    expect(media.list()[0]?.state).toEqual(before);
  });

  it('judges a stick anew each time, and another node by what it was judged to be', async () => {
    const lasts: (string | undefined)[] = [];
    judge = async (_root, last) => {
      lasts.push(last?.trustRevision);
      return { bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' };
    };
    sink.arrived(mediumOf('1-sdb1'));
    sink.arrived(mediumOf('peer:worker-2', { peer: () => ({ isReady: true }) }));
    await readAll('1-sdb1', 'peer:worker-2', '1-sdb1', 'peer:worker-2');
    expect(lasts).toEqual([undefined, undefined, undefined, 'r1']);
  });

  it('mounts a medium that returns under the same id only after the last mount is removed', async () => {
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
        open: async () => {
          story.push('mounted');
          return openedAt('/media/1-sdb1');
        },
      }),
    );
    const mounting = media.mount('1-sdb1', never);
    putAway();
    await mounting;
    expect(story).toEqual(['put away', 'mounted']);
  });

  it('retries a failed mount automatically a few times', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let mounts = 0;
    const error = new AppError({ code: 'media/mount', message: 'job failed', disposition: 'retry' });
    sink.arrived(
      mediumOf('1-sdb1', {
        open: async () => {
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

  it('changes the state of a medium from attached to mounted to read, and signals each change', async () => {
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

  it('reads an empty or unrelated medium as one without bundles', async () => {
    judge = async () => ({ bundles: [], trustRevision: 'r1' });
    sink.arrived(mediumOf('1-sdb1'));
    await readAll('1-sdb1');
    expect(media.list()[0]?.state).toEqual({ kind: 'read', bundles: [], trustRevision: 'r1' });
  });

  it('turns a failed mount into a state, and tries again when asked', async () => {
    let fails = true;
    const open = async (): Promise<OpenMedium> => {
      if (fails) throw new AppError({ code: 'media/mount', message: 'bad superblock', disposition: 'retry' });
      return openedAt('/media/x');
    };
    sink.arrived(mediumOf('1-sdb1', { open }));
    await media.mount('1-sdb1', never);
    expect(media.list()[0]?.state).toEqual({
      kind: 'failed',
      reason: { code: 'media/mount', message: 'bad superblock' },
    });
    fails = false;
    await readAll('1-sdb1');
    expect(states()).toEqual(['1-sdb1 read']);
  });

  it('does nothing for an absent medium, and throws when it is aborted', async () => {
    await readAll('7-none');
    sink.arrived(mediumOf('1-sdb1', { open: () => Promise.reject(new Error('late')) }));
    const stop = new AbortController();
    stop.abort(new Error('stopping'));
    await expect(media.mount('1-sdb1', stop.signal)).rejects.toThrow('stopping');
    expect(states()).toEqual(['1-sdb1 attached']);
  });

  it('forgets its bundles when the medium is removed while it is read', async () => {
    let finish: ((judgement: Judgement) => void) | undefined;
    judge = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'old']])));
    sink.arrived(mediumOf('1-sdb1', { release: async () => void released.push('1-sdb1') }));
    await media.mount('1-sdb1', never);
    const reading = media.read('1-sdb1', never);
    await eventually(() => expect(finish).toBeDefined());
    sink.left('1-sdb1');
    finish?.({ bundles: [bundleAt('stickpin/x')], trustRevision: 'r1' });
    await reading;
    expect(media.list()).toEqual([]);
    expect(await media.blobs.sizeOf(A, never)).toBeUndefined();
    expect(released).toEqual(['1-sdb1']);
  });

  it('requests another read when something changed, and serves the known blobs meanwhile', async () => {
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
    it('come from any medium that has them', async () => {
      directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alpha']])));
      directories.set('/media/2-sdc1/stickpin/x', directory(new Map([[B, 'beta']])));
      sink.arrived(mediumOf('1-sdb1'));
      sink.arrived(mediumOf('2-sdc1'));
      await readAll('1-sdb1', '2-sdc1');
      expect(await media.blobs.sizeOf(B, never)).toBe(4);
      expect(await textOf(media.blobs.read(A, 2, never))).toBe('pha');
      expect(await textOf(media.blobs.read(B, 0, never))).toBe('beta');
    });

    it('are not read from a copy that was cut short', async () => {
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

    it('are not read from rejected bundles', async () => {
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

    it('are found on the next medium when one can not be read', async () => {
      const broken: BlobSource = {
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

    it('end with media/gone when the medium is removed, even while a read hangs', async () => {
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
      const failing: BlobSource = {
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

    describe('that were found bad on one medium', () => {
      const mended = async () => {
        sink.changed('1-sdb1');
        await media.read('1-sdb1', never);
      };
      const labels = async () => (await media.blobs.copiesOf(A, never)).map(({ label }) => label);
      beforeEach(async () => {
        directories.set('/media/1-sdb1/stickpin/x', directory(new Map([[A, 'alp??']])));
        directories.set('/media/2-sdc1/stickpin/x', directory(new Map([[A, 'alpha']])));
        sink.arrived(mediumOf('1-sdb1'));
        sink.arrived(mediumOf('2-sdc1'));
        await readAll('1-sdb1', '2-sdc1');
      });

      it('are read from another one until that medium changes', async () => {
        expect(await textOf(media.blobs.read(A, 0, never))).toBe('alp??');
        const [first] = await media.blobs.copiesOf(A, never);
        expect(first).toMatchObject({ label: 'sdb1', isTrusted: true });
        first?.distrust('damaged');
        expect(await textOf(media.blobs.read(A, 0, never))).toBe('alpha');
        expect(await labels()).toEqual(['sdc1', 'sdb1']);
        await mended();
        expect(await labels()).toEqual(['sdb1', 'sdc1']);
      });

      it('are read from it when there is no other copy, but never to continue a stream of another medium', async () => {
        (await media.blobs.copiesOf(A, never))[0]?.distrust('damaged');
        sink.left('2-sdc1');
        expect(await textOf(media.blobs.read(A, 0, never))).toBe('alp??');
        await expect(textOf(media.blobs.read(A, 2, never))).rejects.toMatchObject({ code: 'media/gone' });
      });

      it('continue from another medium after a read error, which is logged once', async () => {
        const failing: BlobSource = {
          sizeOf: async () => 5,
          async *read() {
            yield Buffer.from('al');
            throw new AppError({ code: 'media/read', message: 'EIO', disposition: 'retry' });
          },
        };
        directories.set('/media/1-sdb1/stickpin/x', failing);
        await mended();
        await expect(textOf(media.blobs.read(A, 0, never))).rejects.toMatchObject({ code: 'media/read' });
        expect(await textOf(media.blobs.read(A, 2, never))).toBe('pha');
        const told = log.lines.filter(({ message }) => message.includes(A));
        expect(told.map(({ message }) => message)).toEqual([
          expect.stringContaining(`Blob ${A} can't be read from sdb1: EIO. It is taken from sdc1 instead.`),
        ]);
        sink.left('2-sdc1');
        await expect(textOf(media.blobs.read(A, 2, never))).rejects.toMatchObject({ code: 'media/read' });
      });
    });

    it('signal when the offered blobs may have changed', async () => {
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
      const watched: BlobSource = {
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
