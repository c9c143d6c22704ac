import { beforeEach, describe, expect, it } from 'vitest';
import { AppError } from '../../../../src/platform/app-error.ts';
import { CriObserver } from '../../../../src/runtime/cri/observe.ts';
import { pullError } from '../../../../src/runtime/cri/runtime-error.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';

const IMAGE = { imageId: 'i1', repoTags: [], repoDigests: ['quay.io/a@sha256:1'], pinned: true };
const SOCKET = '/run/crio/crio.sock';
const signal = new AbortController().signal;

type Name = 'status' | 'version' | 'listImages' | 'imageFilesystemPath' | 'rendered';

let clock: VirtualClock;
/** Errors that each call still throws, in order; `always` is thrown for ever. */
let failures: Partial<Record<Name, { readonly error: Error; left: number }>>;
let calls: Name[];
let stoppingUnit: string | undefined;
let observer: CriObserver;

beforeEach(() => {
  clock = createVirtualClock();
  failures = {};
  stoppingUnit = undefined;
  calls = [];
  const answer = async <T>(name: Name, value: T): Promise<T> => {
    calls.push(name);
    const failure = failures[name];
    if (failure === undefined || failure.left === 0) return value;
    failure.left -= 1;
    throw failure.error;
  };
  observer = new CriObserver({
    cri: {
      socketPath: SOCKET,
      status: () => answer('status', undefined),
      version: () => answer('version', 'cri-o 1.36.3'),
      listImages: () => answer('listImages', [IMAGE]),
      imageFilesystemPath: () => answer('imageFilesystemPath', '/'),
    },
    stop: { unit: () => stoppingUnit },
    traits: { title: 'CRI-O', layerStorage: 'unpacked', mirrorsTakeEffect: 'late' },
    timeoutMs: 15_000,
    clock,
    rendered: () => answer('rendered', { renderedPins: ['quay.io/a@sha256:1'], renderedMirrors: [] }),
  });
});

const fails = (name: Name, left = Number.POSITIVE_INFINITY, error: Error = lstat(name)) => {
  failures[name] = { error, left };
};
const lstat = (name: string) =>
  pullError('runtime/pull-failed', `${name} on ${SOCKET} failed: lstat .tmp-images.json7: no such file or directory`);
const observed = async () => {
  const observation = observer.observe(signal);
  await clock.advance(1_000);
  return observation;
};
const counted = (name: Name) => calls.filter((call) => call === name).length;

describe('an observation over CRI', () => {
  it.each<Name>(['status', 'version', 'listImages', 'imageFilesystemPath', 'rendered'])(
    'retries %s, so that a short failure has no effect',
    async (name) => {
      const whole = await observed();
      expect(whole).toMatchObject({ kind: 'reachable', name: 'cri-o 1.36.3', images: [IMAGE] });
      fails(name, 1);
      expect(await observed()).toMatchObject({ ...whole, filesystem: { path: '/' } });
    },
  );

  it('reports the runtime as unreachable when Status keeps failing, even if other calls succeed', async () => {
    fails('status');
    expect(await observed()).toMatchObject({ kind: 'unreachable', reason: expect.stringContaining('lstat') });
    expect(counted('status')).toBe(4);
  });

  it('does not retry when nothing answers', async () => {
    for (const name of ['status', 'version', 'listImages', 'imageFilesystemPath', 'rendered'] as const)
      fails(name, Number.POSITIVE_INFINITY, pullError('runtime/unreachable', 'connect ENOENT'));
    expect(await observed()).toEqual({ kind: 'unreachable', reason: `nothing answers on ${SOCKET}` });
    expect(calls).toHaveLength(5);
  });

  it('reports a runtime that lists no images as alive, with its name', async () => {
    fails('listImages');
    expect(await observed()).toMatchObject({
      kind: 'unlisted',
      name: 'cri-o 1.36.3',
      reason: expect.stringContaining('listImages on /run/crio/crio.sock failed: lstat'),
    });
    fails('listImages', Number.POSITIVE_INFINITY, pullError('runtime/unreachable', 'ListImages: Deadline exceeded'));
    expect(await observed()).toMatchObject({ kind: 'unlisted', reason: expect.stringContaining('Deadline exceeded') });
  });

  it('uses the last filesystem, name and rendering while these calls fail', async () => {
    await observed();
    calls = [];
    for (const name of ['version', 'imageFilesystemPath', 'rendered'] as const) fails(name);
    expect(await observed()).toMatchObject({
      kind: 'reachable',
      name: 'cri-o 1.36.3',
      filesystem: { path: '/' },
      renderedPins: ['quay.io/a@sha256:1'],
    });
    // Its path is known, so that no time is lost.
    expect(counted('imageFilesystemPath')).toBe(1);
  });

  it('reports filesystem and version as unknown when these calls never succeeded', async () => {
    for (const name of ['version', 'imageFilesystemPath', 'rendered'] as const) fails(name);
    expect(await observed()).toMatchObject({
      kind: 'reachable',
      name: 'CRI-O (version unknown)',
      filesystem: undefined,
      renderedPins: [],
      images: [IMAGE],
    });
  });

  it('forgets the answers of a runtime that went away, since another one may follow', async () => {
    await observed();
    fails('status', 4);
    expect((await observed()).kind).toBe('unreachable');
    fails('version');
    expect(await observed()).toMatchObject({ name: 'CRI-O (version unknown)' });
  });

  it('makes no calls while the runtime is being stopped', async () => {
    stoppingUnit = 'crio.service';
    expect(await observed()).toEqual({
      kind: 'unreachable',
      reason: 'crio.service is being stopped',
      stoppingUnit: 'crio.service',
    });
    expect(calls).toEqual([]);
  });

  it('throws what aborted it, and nothing else', async () => {
    const stop = new AbortController();
    fails('listImages');
    const observation = observer.observe(stop.signal);
    observation.catch(() => undefined);
    await clock.advance(150);
    stop.abort(new AppError({ code: 'test/stop', message: 'stop', disposition: 'retry' }));
    await expect(observation).rejects.toMatchObject({ code: 'test/stop' });
  });
});
