import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { UnitControl } from '../../../src/ports/node.ts';
import { createContainerdRuntime } from '../../../src/runtime/containerd/containerd-runtime.ts';
import { detectRuntime } from '../../../src/runtime/detected-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const signal = AbortSignal.timeout(600_000);
const unforced = { force: false };

const units: UnitControl = {
  reloadUnit: () => Promise.reject(new Error('containerd needs none')),
  onUnitChange: () => () => undefined,
};

describe.runIf(have('root', 'mmdebstrap'))('the containerd adapter', () => {
  let containerd: Containerd;
  let registry: SourceRegistry;
  let runtime: RuntimeAdapter;
  let images = 0;

  const create = (daemon = containerd) =>
    createContainerdRuntime({
      socketPath: daemon.socketPath,
      units,
      mirror: { authority: registry.host, token: TOKEN },
      foldersFile: join(daemon.certsDirectory, '../mirror-folders'),
    });
  const observed = async () => {
    const seen = await runtime.observe(signal);
    if (seen.kind !== 'reachable') throw new Error(seen.reason);
    return seen;
  };
  const imageOf = async (reference: string) =>
    (await observed()).images.find(({ repoDigests, repoTags }) => [...repoDigests, ...repoTags].includes(reference));
  const publish = (image: SampleImage, tags: readonly string[] = []) => {
    registry.add(`${TOKEN}/${REPOSITORY}`, image, tags);
    return `${REPOSITORY}@${image.top.digest}`;
  };
  /** containerd keeps content of earlier tests, so each has an image of its own. */
  const fresh = (layers?: SampleImage['layers']) => {
    images += 1;
    return sampleImage({ seed: `containerd-${images}`, ...(layers && { layers }) });
  };
  /** containerd tells its CRI plugin of labels by an event. */
  const pinned = (reference: string, expected: boolean) =>
    eventually(async () => expect((await imageOf(reference))?.pinned).toBe(expected));
  const mirrored = () => runtime.applyMirrors([{ repository: REPOSITORY }], signal);

  beforeAll(async () => {
    containerd = await startContainerd({ snapshotter: 'native' });
  });
  afterAll(() => containerd?.stop());
  beforeEach(async () => {
    registry = await startSourceRegistry();
    runtime = create();
  });
  afterEach(async () => {
    await runtime.applyMirrors([], signal);
    runtime.close();
    await registry.close();
  });

  it('pulls through our mirror without a reload, and takes it away', async () => {
    const image = fresh();
    const reference = publish(image);
    await mirrored();
    expect((await observed()).renderedMirrors).toEqual([REPOSITORY]);
    await runtime.pull(reference, signal);
    expect(await imageOf(reference)).toMatchObject({ repoTags: [], repoDigests: [reference], pinned: false });
    expect(registry.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `HEAD /v2/${TOKEN}/${REPOSITORY}/manifests/${image.top.digest}`,
      `GET /v2/${TOKEN}/${REPOSITORY}/manifests/${image.top.digest}`,
      `GET /v2/${TOKEN}/${REPOSITORY}/blobs/${image.config.digest}`,
      `GET /v2/${TOKEN}/${REPOSITORY}/blobs/${image.layers[0]?.digest}`,
    ]);
    await runtime.applyMirrors([], signal);
    expect(readdirSync(containerd.certsDirectory)).toEqual([]);
    registry.forget();
    const absent = runtime.pull(`${REPOSITORY}@${fresh().top.digest}`, signal);
    await expect(absent).rejects.toMatchObject({ code: 'runtime/pull-failed' });
    expect(registry.requests).toEqual([]);
  });

  it('reports its name, version and free space', async () => {
    const seen = await observed();
    expect(seen.name).toMatch(/^containerd 1\.7\./);
    expect(seen.filesystem?.freeBytes).toBeGreaterThan(0);
  });

  it('pins by label those images that are present, and unpins them (docs/runtime-facts.md, fact 22)', async () => {
    const [first, second] = [publish(fresh()), publish(fresh())];
    await mirrored();
    await runtime.pull(first, signal);
    await runtime.applyPins([first, second], unforced, signal);
    await pinned(first, true);
    expect((await observed()).renderedPins).toEqual([first]);
    await runtime.pull(second, signal);
    await runtime.applyPins([second], unforced, signal);
    await pinned(second, true);
    await pinned(first, false);
    expect((await observed()).renderedPins).toEqual([second]);
    await runtime.applyPins([], unforced, signal);
    await pinned(second, false);
    expect(await containerd.ctr('images', 'ls')).not.toContain('stickpin');
  });

  it('pins what is to be pinned as soon as it is pulled, and nothing else', async () => {
    const [wanted, other] = [publish(fresh()), publish(fresh())];
    await mirrored();
    await runtime.applyPins([wanted], unforced, signal);
    await runtime.pull(wanted, signal);
    await runtime.pull(other, signal);
    expect((await observed()).renderedPins).toEqual([wanted]);
    await pinned(wanted, true);
    await pinned(other, false);
    await runtime.applyPins([], unforced, signal);
    await pinned(wanted, false);
  });

  /** An image of its own that is present and pinned. */
  const pinnedImage = async (): Promise<string> => {
    const reference = publish(fresh());
    await mirrored();
    await runtime.pull(reference, signal);
    await runtime.applyPins([reference], unforced, signal);
    await pinned(reference, true);
    return reference;
  };

  it('pins again what a second pull has unpinned', async () => {
    const reference = await pinnedImage();
    await runtime.pull(reference, signal);
    await runtime.applyPins([reference], unforced, signal);
    await pinned(reference, true);
    await runtime.applyPins([], unforced, signal);
  });

  it('pins again what its own pull has unpinned, also what was pinned before it started', async () => {
    const reference = await pinnedImage();
    const later = create();
    await later.observe(signal);
    await later.pull(reference, signal);
    later.close();
    await pinned(reference, true);
    expect((await observed()).renderedPins).toEqual([reference]);
    await runtime.applyPins([], unforced, signal);
    await runtime.pull(reference, signal);
    await pinned(reference, false);
  });

  it('gives a tag without a request, takes it from another image, and keeps pins', async () => {
    const [first, second] = [publish(fresh()), publish(fresh())];
    await mirrored();
    await runtime.applyPins([first, second], unforced, signal);
    await runtime.pull(first, signal);
    await runtime.pull(second, signal);
    await pinned(first, true);
    registry.forget();
    const tag = `${REPOSITORY}:given`;
    expect(await runtime.addTag(tag, first, signal)).toBe(true);
    expect(await runtime.image(tag, signal)).toMatchObject({ repoDigests: [first], pinned: true });
    expect(await runtime.addTag(tag, first, signal)).toBe(true);
    expect(await runtime.addTag(tag, second, signal)).toBe(true);
    expect(await runtime.image(tag, signal)).toMatchObject({ repoTags: [tag], repoDigests: [second], pinned: true });
    expect((await imageOf(first))?.repoTags).toEqual([]);
    // An image of the node may have a tag only.
    const other = `${REPOSITORY}:other`;
    expect(await runtime.addTag(other, tag, signal)).toBe(true);
    expect((await imageOf(second))?.repoTags).toEqual([tag, other]);
    await runtime.removeTag(other, signal);
    expect(await runtime.addTag(tag, `${REPOSITORY}:absent`, signal)).toBe(false);
    expect(await runtime.addTag(tag, `${REPOSITORY}@${fresh().top.digest}`, signal)).toBe(false);
    expect(registry.requests).toEqual([]);
    await runtime.removeTag(tag, signal);
    await runtime.applyPins([], unforced, signal);
  });

  it('does not change pins of others', async () => {
    const reference = publish(fresh());
    await mirrored();
    await runtime.pull(reference, signal);
    await containerd.ctr('images', 'label', reference, 'io.cri-containerd.pinned=pinned');
    await pinned(reference, true);
    await runtime.applyPins([reference], unforced, signal);
    expect((await observed()).renderedPins).toEqual([reference]);
    await runtime.applyPins([], unforced, signal);
    expect((await observed()).renderedPins).toEqual([]);
    expect((await imageOf(reference))?.pinned).toBe(true);
    expect(await containerd.ctr('images', 'ls', `name==${reference}`)).toContain('io.cri-containerd.pinned=pinned');
  });

  it('keeps pins over a restart of containerd, and finds it again', async () => {
    const reference = publish(fresh());
    await mirrored();
    await runtime.pull(reference, signal);
    await runtime.applyPins([reference], unforced, signal);
    await containerd.restart();
    await eventually(async () => expect((await runtime.observe(signal)).kind).toBe('reachable'), 20_000);
    await pinned(reference, true);
    await runtime.applyPins([], unforced, signal);
  });

  it('moves a tag at activation and takes it away, the image staying under its digest', async () => {
    const [first, second] = [fresh(), fresh()];
    const [one, two] = [publish(first, ['v1']), publish(second)];
    await mirrored();
    for (const reference of [one, two, `${REPOSITORY}:v1`]) await runtime.pull(reference, signal);
    expect((await imageOf(`${REPOSITORY}:v1`))?.repoDigests).toEqual([one]);
    publish(second, ['v1']);
    await runtime.pull(`${REPOSITORY}:v1`, signal);
    expect((await imageOf(`${REPOSITORY}:v1`))?.repoDigests).toEqual([two]);
    expect((await runtime.image(`${REPOSITORY}:v1`, signal))?.repoDigests).toEqual([two]);
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
    await eventually(async () => expect(await imageOf(`${REPOSITORY}:v1`)).toBeUndefined());
    expect(await imageOf(two)).toBeDefined();
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
  });

  it('tries the user’s own host after our mirror, and leaves the user’s file unchanged', async () => {
    const image = fresh();
    registry.add('theirs/coreos/etcd', image);
    const directory = join(containerd.certsDirectory, 'quay.example.com');
    mkdirSync(directory);
    const users = `[host."http://${registry.host}/v2/theirs"]\noverride_path = true # mine\n`;
    writeFileSync(join(directory, 'hosts.toml'), users);
    await mirrored();
    await runtime.pull(`${REPOSITORY}@${image.top.digest}`, signal);
    const manifests = registry.requests.filter(({ method, kind }) => method === 'HEAD' && kind === 'manifest');
    expect(manifests.map(({ path, status }) => [path.slice(0, path.lastIndexOf('/')), status])).toEqual([
      [`/v2/${TOKEN}/${REPOSITORY}/manifests`, 404],
      ['/v2/theirs/coreos/etcd/manifests', 200],
    ]);
    await runtime.applyMirrors([], signal);
    expect(readFileSync(join(directory, 'hosts.toml'), 'utf8')).toBe(users);
    registry.forget();
    const other = fresh();
    registry.add('theirs/coreos/etcd', other);
    await runtime.pull(`${REPOSITORY}@${other.top.digest}`, signal);
    expect(registry.requests.every(({ path }) => path.startsWith('/v2/theirs/'))).toBe(true);
  });

  it('mirrors a registry with a port', async () => {
    const image = fresh();
    registry.add(`${TOKEN}/registry.example.com__5000/app`, image);
    await runtime.applyMirrors([{ repository: 'registry.example.com:5000/app' }], signal);
    await runtime.pull(`registry.example.com:5000/app@${image.top.digest}`, signal);
    expect((await observed()).renderedMirrors).toEqual(['registry.example.com:5000/app']);
  });

  it('names the reason of a failed pull', async () => {
    const layer = sampleLayer({ seed: `layer-${process.pid}` });
    const image = fresh([layer]);
    const reference = publish(image);
    await mirrored();
    registry.breakDown(layer.digest, { kind: 'corrupt', atByte: 5_000 });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    registry.mend(layer.digest);
    const missing = fresh();
    const lacking = publish(missing);
    registry.drop(missing.config.digest);
    const refused = runtime.pull(lacking, signal);
    await expect(refused).rejects.toMatchObject({ code: expect.stringMatching(/^runtime\/(not-found|pull-failed)$/) });
  });

  it('cancels a pull on the wire', async () => {
    const layer = sampleLayer({ seed: `stalled-${process.pid}` });
    const reference = publish(fresh([layer]));
    await mirrored();
    registry.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const stop = new AbortController();
    const refused = expect(runtime.pull(reference, stop.signal)).rejects.toMatchObject({ code: 'runtime/cancelled' });
    await eventually(() => expect(registry.bytesSent(layer.digest)).toBe(100), 20_000);
    stop.abort();
    await refused;
    registry.mend(layer.digest);
  });

  it('is found by its socket', async () => {
    const candidate = {
      kind: 'containerd',
      title: 'this one',
      socketPath: containerd.socketPath,
      unitNames: [],
      trace: containerd.configFile,
    } as const;
    const silent = { ...candidate, title: 'silent', socketPath: join(containerd.certsDirectory, 'none.sock') };
    expect(await detectRuntime(signal, undefined, [silent, candidate])).toEqual({ ...candidate, answers: true });
  });

  it('says which line is missing when containerd reads no mirrors', async () => {
    const bare = await startContainerd({ withConfigPath: false, snapshotter: 'native' });
    const adapter = create(bare);
    try {
      expect(await adapter.observe(signal)).toMatchObject({ kind: 'reachable', renderedMirrors: [] });
      await adapter.applyMirrors([], signal);
      await expect(adapter.applyMirrors([{ repository: REPOSITORY }], signal)).rejects.toMatchObject({
        code: 'runtime/config',
        disposition: 'wait',
        message: expect.stringContaining('config_path = "/etc/containerd/certs.d"'),
      });
    } finally {
      adapter.close();
      await bare.stop();
    }
  });
});
