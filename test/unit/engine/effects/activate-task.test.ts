import { beforeEach, describe, expect, it } from 'vitest';
import type { MirrorEffect, RuntimeImage } from '../../../../src/domain/model/image.ts';
import { activateBundle } from '../../../../src/engine/effects/tag-effects.ts';
import { createStallWatch } from '../../../../src/engine/tasks/stall-watch.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { digestOf, stored, verified } from '../../../support/daemon/scenario.ts';
import { createVirtualClock } from '../../../support/fake-ports.ts';

const bundle = stored(verified({ images: { etcd: ['etcd'], api: ['api'] } }));
const [etcd, api] = bundle.contents.images.map(({ reference }) => reference) as [string, string];
const tagOf = (reference: string) => `${reference.slice(0, reference.indexOf('@'))}:4.13.7`;

const IDLE = { sentBytes: 0, opened: 0, open: 0, awaitingMedium: 0, awaitingRuntime: 0 };

/** A runtime that has the images of the release, and a meter of what it asked our registry for. */
function createNode() {
  const images = new Map<string, RuntimeImage>();
  const manifests = new Map<string, number>();
  const add = (imageId: string, ...repoDigests: readonly string[]) =>
    images.set(imageId, { imageId, repoTags: [], repoDigests, pinned: true });
  const untag = (tag: string) => {
    for (const [id, one] of images) {
      images.set(id, { ...one, repoTags: one.repoTags.filter((other) => other !== tag) });
    }
  };
  const named = (name: string) =>
    [...images.values()].find(({ repoTags, repoDigests }) => [...repoTags, ...repoDigests].includes(name));
  const node = {
    log: [] as string[],
    clock: createVirtualClock(),
    /** Names whose pull never ends, after the request to our registry. */
    hanging: [] as readonly string[],
    /** Whether our registry has the manifests that it is asked for. */
    isSent: true,
    /** Images whose pull by tag our registry answered. */
    answered: [] as string[],
    mirrorsTakeEffect: 'late' as MirrorEffect,
    /** Repositories whose mirror is in force. */
    mirrored: new Set([etcd, api].map((reference) => reference.slice(0, reference.indexOf('@')))),
    /** Repositories whose mirror is known to be in force. */
    proven: new Set<string>(),
    /** Repositories of which the runtime's configuration has a mirror. */
    rendered: [] as readonly string[],
    failPull: undefined as Error | undefined,
    /** What a tag is given by, in place of the release's own image. */
    foreign: new Map<string, { imageId: string; digest: string }>(),
    add,
    named,
    tag: (tag: string, imageId: string, ...digests: readonly string[]) => {
      untag(tag);
      const one = images.get(imageId);
      if (one === undefined) throw new Error(`no image ${imageId}`);
      images.set(imageId, {
        ...one,
        repoTags: [...one.repoTags, tag],
        repoDigests: [...new Set([...one.repoDigests, ...digests])],
      });
    },
    activate: (signal = new AbortController().signal) =>
      activateBundle(
        bundle,
        [],
        {
          runtime: {
            observe: async () => ({
              kind: 'reachable',
              name: 'fake 1',
              images: [...images.values()],
              filesystem: undefined,
              mirrorsTakeEffect: node.mirrorsTakeEffect,
              renderedPins: [],
              renderedMirrors: node.rendered,
            }),
            image: async (name) => named(name),
            addTag: async () => false,
            removeTag: async (tag) => {
              node.log.push(`remove ${tag}`);
              untag(tag);
            },
            pull: async (name, signal) => {
              node.log.push(name);
              const [repository = ''] = name.split(/@|:\d/);
              const key = name.includes('@') ? name : name.replace(/:(?=[^:]*$)/, '@');
              if (node.mirrored.has(repository)) manifests.set(key, (manifests.get(key) ?? 0) + 1);
              if (node.hanging.includes(name)) await node.clock.sleep(Number.MAX_SAFE_INTEGER, signal);
              if (node.failPull !== undefined) throw node.failPull;
              if (name.includes('@')) return;
              const foreign = node.foreign.get(name);
              const own = named([etcd, api].find((reference) => tagOf(reference) === name) ?? '');
              if (foreign !== undefined && !images.has(foreign.imageId)) add(foreign.imageId);
              if (foreign !== undefined) node.tag(name, foreign.imageId, `${repository}@${foreign.digest}`);
              else if (own !== undefined) node.tag(name, own.imageId);
            },
          },
          meter: {
            manifestRequests: (repository, digest) => manifests.get(`${repository}@${digest}`) ?? 0,
            manifestsSent: (repository, digest) => (node.isSent ? (manifests.get(`${repository}@${digest}`) ?? 0) : 0),
          },
          mirrorGate: {
            isProven: (repository) => node.proven.has(repository),
            prove: (repository) => void node.proven.add(repository),
          },
          stalls: createStallWatch({ clock: node.clock, meter: { flow: () => IDLE }, stallMs: 90_000 }),
          pullChecker: { answered: (reference) => void node.answered.push(reference) },
        },
        signal,
      ),
  };
  add('id-etcd', etcd);
  add('id-api', api);
  return node;
}

let node: ReturnType<typeof createNode>;
beforeEach(() => {
  node = createNode();
});

describe('activateBundle', () => {
  it('pulls a present image by digest before any tag, in each repository, where mirrors take effect late', async () => {
    expect(await node.activate()).toBe(2);
    expect(node.log).toEqual([etcd, api, tagOf(etcd), tagOf(api)]);
  });

  it('counts a pull by tag as a test of pulls when our registry sent the manifest', async () => {
    await node.activate();
    expect(node.answered).toEqual([etcd, api]);
    node = createNode();
    node.isSent = false;
    await node.activate();
    expect(node.answered).toEqual([]);
    node = createNode();
    node.mirrorsTakeEffect = 'at-once';
    node.mirrored.clear();
    await node.activate();
    expect(node.answered).toEqual([]);
  });

  it('does not probe a mirror that was in effect before, as long as it is rendered', async () => {
    node.proven = new Set(node.mirrored);
    node.rendered = [etcd.slice(0, etcd.indexOf('@'))];
    await node.activate();
    expect(node.log).toEqual([api, tagOf(etcd), tagOf(api)]);
  });

  it('records which mirrors were shown to be in effect', async () => {
    await node.activate();
    expect(node.proven).toEqual(node.mirrored);
  });

  it('probes a runtime that may bypass mirrors as well', async () => {
    node.mirrorsTakeEffect = 'next-pull';
    node.mirrored = new Set();
    await expect(node.activate()).rejects.toMatchObject({ code: 'engine/mirror-unused' });
    expect(node.log).toEqual([etcd]);
  });

  it('pulls the tags alone where mirrors take effect at once', async () => {
    node.mirrorsTakeEffect = 'at-once';
    await node.activate();
    expect(node.log).toEqual([tagOf(etcd), tagOf(api)]);
  });

  it('sends no request when every tag names its image', async () => {
    node.tag(tagOf(etcd), 'id-etcd');
    node.tag(tagOf(api), 'id-api');
    expect(await node.activate()).toBe(2);
    expect(node.log).toEqual([]);
  });

  it.each([
    ['all repositories', []],
    ['one of them', [etcd.slice(0, etcd.indexOf('@'))]],
  ])('pulls no tag while the mirror of %s is not in force', async (_which, mirrored) => {
    node.mirrored = new Set(mirrored);
    await expect(node.activate()).rejects.toMatchObject({ code: 'engine/mirror-unused', disposition: 'retry' });
    expect(node.log.every((name) => name.includes('@'))).toBe(true);
  });

  it('accepts a failed pull as proof when our registry was asked, and continues with the tags', async () => {
    const failPull = new AppError({ code: 'runtime/not-found', message: 'manifest unknown', disposition: 'retry' });
    node.failPull = failPull;
    await expect(node.activate()).rejects.toBe(failPull);
    expect(node.log).toEqual([etcd, api, tagOf(etcd)]);
  });

  it('says why the pull failed when our registry was not asked', async () => {
    node.mirrored = new Set();
    node.failPull = new Error('no route to host');
    await expect(node.activate()).rejects.toThrow(/did not ask stickpin's registry for quay.*no route to host/);
  });

  it.each(['runtime/unreachable', 'runtime/stopping'])('reports a runtime that is away as such: %s', async (code) => {
    node.mirrored = new Set();
    node.failPull = new AppError({ code, message: 'gone', disposition: 'retry' });
    await expect(node.activate()).rejects.toBe(node.failPull);
  });

  it.each([
    ['runtime/no-space', /^the runtime's storage is full or its quota used up\. Make room on it/],
    ['runtime/read-only', /^the runtime's storage is read-only\. Look for errors of its disk in dmesg and remount it/],
  ] as const)('reports %s as such, also when the runtime fails before it asks our registry', async (code, words) => {
    for (const mirrored of [new Set<string>(), node.mirrored]) {
      node.mirrored = mirrored;
      node.failPull = new AppError({ code, message: 'no space left on device', disposition: 'wait' });
      await expect(node.activate()).rejects.toMatchObject({ code, message: expect.stringMatching(words) });
    }
  });

  it.each([
    { what: 'the first tag', name: tagOf(etcd), isMirrored: true },
    { what: 'a later tag', name: tagOf(api), isMirrored: true },
    { what: 'the image that shows the mirror', name: etcd, isMirrored: false },
  ])('ends when the pull of $what does not', async ({ name, isMirrored }) => {
    if (!isMirrored) node.mirrored = new Set();
    node.hanging = [name];
    const end = node.activate().catch((error: unknown) => error);
    await node.clock.advance(89_000);
    expect(node.log.at(-1)).toBe(name);
    expect(await Promise.race([end, 'not yet'])).toBe('not yet');
    await node.clock.advance(2_000);
    const message = expect.stringContaining(`the runtime has given no answer to the pull of ${name} for 90 s.`);
    expect(await end).toMatchObject({ code: 'engine/stalled', message });
  });

  it('throws what aborted it', async () => {
    const controller = new AbortController();
    controller.abort(new Error('stop'));
    node.failPull = new Error('cancelled');
    await expect(node.activate(controller.signal)).rejects.toThrow('stop');
  });

  it('removes a wrong tag at once, and pulls no other', async () => {
    node.foreign.set(tagOf(etcd), { imageId: 'id-other', digest: digestOf('other') });
    await expect(node.activate()).rejects.toMatchObject({ code: 'engine/tag-mismatch' });
    expect(node.log.slice(2)).toEqual([tagOf(etcd), `remove ${tagOf(etcd)}`]);
    expect(node.named(tagOf(etcd))).toBeUndefined();
  });

  it('removes a tag that names another manifest with the same configuration, and accepts it once it is right', async () => {
    node.foreign.set(tagOf(etcd), { imageId: 'id-etcd', digest: digestOf('rebuilt') });
    await expect(node.activate()).rejects.toMatchObject({ code: 'engine/tag-mismatch' });
    expect(node.log).toContain(`remove ${tagOf(etcd)}`);
    node.foreign.clear();
    expect(await node.activate()).toBe(2);
  });

  it('counts an index and the manifest in it as one image', async () => {
    node.add('id-etcd', etcd, `${etcd.slice(0, etcd.indexOf('@'))}@${digestOf('platform')}`);
    node.foreign.set(tagOf(etcd), { imageId: 'id-etcd', digest: digestOf('platform') });
    expect(await node.activate()).toBe(2);
  });
});
