import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { imagesText } from '../../../src/app/command-line/support-facts.ts';
import { clientOf } from '../../../src/domain/decide/catalog.ts';
import type { Digest } from '../../../src/domain/model/digest.ts';
import type { UnitControl } from '../../../src/ports/node.ts';
import { detectRuntime } from '../../../src/runtime/detected-runtime.ts';
import { createDockerRuntime } from '../../../src/runtime/docker/docker-runtime.ts';
import { EngineClient } from '../../../src/runtime/docker/engine-client.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { programImage, programLayer } from '../../support/bundles/program-image.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import {
  type DockerEngine,
  type EngineKind,
  engines,
  startDockerEngine,
} from '../../support/daemon/runtimes/docker-engine.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const signal = AbortSignal.timeout(600_000);
const unforced = { force: false };
const units: UnitControl = {
  reloadUnit: () => Promise.reject(new Error('it needs none')),
  onUnitChange: () => () => undefined,
};

describe.runIf(have('root', 'mmdebstrap')).each(Object.keys(engines) as EngineKind[])('the adapter for %s', (kind) => {
  let engine: DockerEngine;
  let registry: SourceRegistry;
  let runtime: RuntimeAdapter;
  let log: RecordingLog;
  let images = 0;

  const create = (token = TOKEN) =>
    createDockerRuntime({
      title: kind === 'Podman' ? 'Podman' : 'Docker',
      socketPath: engine.socketPath,
      unitNames: [],
      units,
      mirror: { authority: registry.host, token },
      log,
    });
  const observed = async () => {
    const seen = await runtime.observe(signal);
    if (seen.kind !== 'reachable') throw new Error(seen.reason);
    return seen;
  };
  const imageOf = async (name: string) => runtime.image(name, signal);
  const publish = (image: SampleImage, repository = REPOSITORY, token = TOKEN) => {
    registry.add(`${token}/${repository}`, image);
    return `${repository}@${image.top.digest}`;
  };
  /** The engine keeps content of earlier tests, so each has an image of its own. */
  const fresh = (options: Omit<Parameters<typeof sampleImage>[0], 'seed'> = {}) => {
    images += 1;
    return sampleImage({ seed: `docker-${images}`, ...options });
  };
  const pulled = async (image = fresh()) => {
    const reference = publish(image);
    await runtime.pull(reference, signal);
    return reference;
  };
  const pinned = async () => {
    const reference = await pulled();
    await runtime.applyPins([reference], unforced, signal);
    expect(await imageOf(reference)).toMatchObject({ pinned: true });
    return reference;
  };
  const filters = (of: object) => encodeURIComponent(JSON.stringify(of));
  const namesInEngine = async () => {
    const listed = (await engine.api('GET', '/images/json')) as { RepoTags: string[]; RepoDigests: string[] }[];
    return listed.flatMap(({ RepoTags, RepoDigests }) => [...(RepoTags ?? []), ...(RepoDigests ?? [])]);
  };

  beforeAll(async () => {
    engine = await startDockerEngine(kind);
  });
  afterAll(() => engine?.stop());
  beforeEach(async () => {
    registry = await startSourceRegistry();
    log = createRecordingLog();
    runtime = create();
  });
  afterEach(async () => {
    await runtime.applyPins([], unforced, signal);
    runtime.close();
    await registry.close();
  });

  it('reports its name, its storage and its free space', async () => {
    const seen = await observed();
    expect(seen.name).toMatch(
      { 'Docker 20.10': /^docker 20\.10/, Podman: /^podman 5/ }[kind as string] ?? /^docker 26/,
    );
    expect(seen.layerStorage).toBe(kind === 'Docker 26, containerd store' ? 'both' : 'unpacked');
    expect(seen.filesystem?.freeBytes).toBeGreaterThan(0);
    expect(seen.staging !== undefined).toBe(kind === 'Podman');
    const [root, driver] = await runtime.storagePaths(signal);
    if (kind === 'Podman' || seen.layerStorage === 'both') expect(root).toBeUndefined();
    else expect(driver).toBe(`${root}/${((await engine.api('GET', '/info')) as { Driver: string }).Driver}`);
    const { socketPath } = engine;
    expect(await imagesText({ kind: 'docker', socketPath }, signal)).toBe(`${seen.name} on ${socketPath}\n[]\n`);
    // As Podman's own link at Docker's socket.
    const candidate = { kind: 'docker', title: 'Docker', socketPath, unitNames: [], trace: socketPath } as const;
    expect((await detectRuntime(signal, undefined, [candidate]))?.answers).toBe(kind !== 'Podman');
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    expect((await observed()).renderedMirrors).toEqual([REPOSITORY]);
  });

  it.each([false, true])(
    'pulls each layer once, and names the image by its digest only (index: %s)',
    async (withIndex) => {
      const shared = sampleLayer({ seed: `shared-${kind}-${withIndex}` });
      const [first, second] = [
        fresh({ layers: [shared], withIndex }),
        fresh({ layers: [shared, sampleLayer({ seed: `own-${withIndex}` })] }),
      ];
      const reference = await pulled(first);
      await pulled(second);
      expect(registry.getCount(shared.digest)).toBe(1);
      expect(new Set(registry.requests.map(({ userAgent }) => clientOf(userAgent)))).toEqual(
        new Set([kind === 'Podman' ? 'other' : 'runtime']),
      );
      expect(await imageOf(reference)).toMatchObject({ repoTags: [], pinned: false });
      expect((await imageOf(reference))?.repoDigests).toContain(reference);
      expect((await namesInEngine()).filter((name) => name.startsWith('127.'))).toEqual([]);
      const layers = first.layers.map(({ digest, diffId, sizeBytes }) => ({
        digest: digest as Digest,
        diffId: diffId as Digest,
        size: sizeBytes,
      }));
      const documents = [first.top, first.manifest, first.config].map(({ digest }) => digest as Digest);
      const check = runtime.openContentCheck();
      const expected = { reference, documents, layers };
      expect(await check.check(expected, () => undefined, signal)).toEqual({ kind: 'whole', by: 'records' });
      const other = { ...expected, documents: [second.top.digest as Digest] };
      expect(await check.check(other, () => undefined, signal)).toMatchObject({ kind: 'unknown' });
      const absent = { ...expected, reference: publish(fresh()) };
      expect(await check.check(absent, () => undefined, signal)).toEqual({ kind: 'absent', faults: [] });
    },
  );

  it('removes the name at our registry, whichever digest of an index comes first', async () => {
    for (const isFirst of [true, false]) {
      let image: SampleImage;
      do image = fresh({ withIndex: true });
      while (image.manifest.digest < image.top.digest !== isFirst);
      const reference = await pulled(image);
      expect((await imageOf(reference))?.repoDigests).toContain(reference);
      expect((await namesInEngine()).filter((name) => name.startsWith('127.'))).toEqual([]);
    }
  });

  it('names an image of Docker Hub and one of a registry with a port as other runtimes do', async () => {
    for (const [repository, path] of [
      ['docker.io/library/etcd', 'docker.io/library/etcd'],
      ['registry.example.com:5000/app', 'registry.example.com__5000/app'],
    ] as const) {
      const image = fresh();
      publish(image, path);
      const reference = `${repository}@${image.top.digest}`;
      await runtime.pull(reference, signal);
      expect(await runtime.addTag(`${repository}:1`, reference, signal)).toBe(true);
      expect(await imageOf(`${repository}:1`)).toMatchObject({ repoTags: [`${repository}:1`] });
      expect((await imageOf(reference))?.repoDigests).toContain(reference);
    }
  });

  it('pins by a container that is never started, also an image with volumes and none that is absent', async () => {
    const reference = await pinned();
    const absent = publish(fresh({ volumes: ['/var/lib/data'] }));
    await runtime.applyPins([reference, absent], unforced, signal);
    await runtime.applyPins([reference, absent], unforced, signal);
    expect((await observed()).renderedPins).toEqual([reference]);
    const containers = (await engine.api('GET', '/containers/json?all=1')) as { State: string; Labels: object }[];
    expect(containers.map(({ State, Labels }) => [State, Labels])).toEqual([
      ['created', expect.objectContaining({ 'io.stickpin.pin': reference })],
    ]);
    expect(await runtime.containers(signal)).toEqual([]);
    // What is absent gets its pin with its pull.
    await runtime.pull(absent, signal);
    expect((await observed()).renderedPins).toEqual([reference, absent].sort());
    expect(await imageOf(absent)).toMatchObject({ pinned: true });
    expect(await engine.api('GET', '/volumes')).toMatchObject({ Volumes: expect.toSatisfy((all) => !all?.length) });
    await runtime.applyPins([], unforced, signal);
    expect((await observed()).renderedPins).toEqual([]);
    expect(await engine.api('GET', '/containers/json?all=1')).toEqual([]);
  });

  it('pins an image with odd volumes, and the others when one pin fails', async () => {
    const [taken, odd] = [await pinned(), await pulled(fresh({ volumes: ['/', '/a/', '/a', 'b', ''] }))];
    const [pin] = (await engine.api('GET', '/containers/json?all=1')) as { Image: string; Names: string[] }[];
    await runtime.applyPins([], unforced, signal);
    const name = pin?.Names[0]?.replace('/', '');
    await engine.api('POST', `/containers/create?name=${name}`, { Image: pin?.Image, Cmd: ['/bin/true'] });
    try {
      await expect(runtime.applyPins([taken, odd], unforced, signal)).rejects.toThrow(name);
      expect((await observed()).renderedPins).toEqual([odd]);
    } finally {
      await engine.api('DELETE', `/containers/${name}?force=1`);
    }
    await runtime.applyPins([taken, odd], unforced, signal);
    expect((await observed()).renderedPins).toEqual([odd, taken].sort());
  });

  it('uses all others where an image or a container of anybody has labels without measure', async () => {
    const good = await pulled();
    const long = {
      ['n'.repeat(5_000)]: 'x',
      ...Object.fromEntries([...'abcde'].map((name) => [name, 'v'.repeat(700_000)])),
    };
    const poisoned = await pulled(
      fresh({ labels: long, config: { Env: ['A=1', 'B=2'], User: '7', Healthcheck: { Test: ['CMD', 'x'] } } }),
    );
    await runtime.addTag(`${REPOSITORY}:poisoned`, poisoned, signal);
    const others = ['pipeline-1', 'pipeline-2', 'pipeline-3', 'pipeline-4', 'pipeline-5', 'pipeline-6'];
    for (const [at, name] of others.entries()) {
      const Labels = { ...long, big: 'b'.repeat(at === 0 ? 1_500_000 : 0) };
      const body = { Image: `${REPOSITORY}:poisoned`, Cmd: ['/bin/true'], Labels, HostConfig: { NetworkMode: 'none' } };
      await engine.api('POST', `/containers/create?name=${name}`, body);
    }
    try {
      await runtime.applyPins([good, poisoned], unforced, signal);
      expect((await observed()).renderedPins).toEqual([good, poisoned].sort());
      for (const name of [good, poisoned]) expect(await imageOf(name)).toMatchObject({ pinned: true });
      const listed = await runtime.containers(signal);
      expect(listed.map(({ key }) => key).sort()).toEqual(['', ...others.slice(1)]);
      expect(listed.find(({ key }) => key === '')).toMatchObject({ state: 'other', volumeImages: 'unknown' });
      expect(await runtime.containerImages(signal)).toContainEqual(expect.objectContaining({ image: '' }));
      const { imageId = '' } = (await imageOf(good)) ?? {};
      await expect(runtime.removeImage(imageId, signal)).rejects.toThrow('that can not be read uses it');
      const told = log.lines.map(({ message }) => message);
      expect(told).toEqual([expect.stringContaining('about container pipeline-1 (')]);
      const pins = (await engine.api(
        'GET',
        `/containers/json?all=1&filters=${filters({ label: ['io.stickpin.pin'] })}`,
      )) as {
        Id: string;
        Labels: Record<string, string>;
      }[];
      const pin = pins.find(({ Labels }) => Labels['io.stickpin.pin'] === poisoned);
      expect([pin?.Labels.a, pin?.Labels.e]).toEqual(['', '']);
      expect(await engine.api('GET', `/containers/${pin?.Id}/json`)).toMatchObject({
        Config: { Env: expect.arrayContaining(['A=', 'B=']), User: '0:0', Cmd: ['/stickpin-pin'] },
      });
      await runtime.applyPins([good], unforced, signal);
      expect((await observed()).renderedPins).toEqual([good]);
    } finally {
      for (const name of others) await engine.api('DELETE', `/containers/${name}?force=1`);
    }
  });

  it('keeps a pinned image over image clean-up, and its names or gives them again', async () => {
    const reference = await pinned();
    await runtime.addTag(`${REPOSITORY}:kept`, reference, signal);
    await engine.api('POST', `/images/prune?filters=${filters({ dangling: ['false'] })}`);
    expect(await imageOf(reference)).toMatchObject({ pinned: true });
    expect(await runtime.addTag(`${REPOSITORY}:kept`, reference, signal)).toBe(true);
    expect((await observed()).renderedPins).toEqual([reference]);
  });

  it('knows an image by its id that a clean-up of the system left to a container without its digest', async () => {
    const reference = await pulled(programImage(`cleaned-${kind}`, await programLayer()));
    // Docker's classic store keeps the last name by the alphabet.
    const tag = `${REPOSITORY}:v1`;
    await runtime.addTag(tag, reference, signal);
    await runtime.applyPins([reference], unforced, signal);
    await observed();
    await engine.api('POST', '/containers/create?name=cleaned', { Image: tag, HostConfig: { NetworkMode: 'none' } });
    await engine.api('POST', '/containers/cleaned/start');
    try {
      await engine.api('POST', '/containers/prune');
      await engine.api('POST', `/images/prune?filters=${filters({ dangling: ['false'] })}`);
      await observed();
      await runtime.applyPins([reference], unforced, signal);
      expect(await imageOf(reference)).toMatchObject({ pinned: true });
      expect(await imageOf(tag)).toMatchObject({ pinned: true });
    } finally {
      await engine.api('DELETE', '/containers/cleaned?force=1');
    }
  });

  it('sees a pin that a clean-up of containers took, and makes it again', async () => {
    const reference = await pinned();
    let changes = 0;
    const stop = runtime.onChange(() => {
      changes += 1;
    });
    try {
      await eventually(async () => {
        // The stream of events may not be open yet.
        await engine.api('POST', '/containers/prune');
        await runtime.applyPins([reference], unforced, signal);
        expect(changes).toBeGreaterThan(0);
      }, 20_000);
    } finally {
      stop();
    }
    expect(await imageOf(reference)).toMatchObject({ pinned: true });
  });

  it('moves a tag without a request, and takes it away while the image stays', async () => {
    const [first, second] = [await pulled(), await pulled()];
    await runtime.applyPins([first, second], unforced, signal);
    registry.forget();
    const tag = `${REPOSITORY}:given`;
    expect(await runtime.addTag(tag, first, signal)).toBe(true);
    expect(await imageOf(tag)).toMatchObject({ repoTags: [tag], pinned: true });
    expect(await runtime.addTag(tag, second, signal)).toBe(true);
    expect((await imageOf(tag))?.repoDigests).toContain(second);
    expect((await imageOf(first))?.repoTags).toEqual([]);
    expect(await runtime.addTag(tag, `${REPOSITORY}@${fresh().top.digest}`, signal)).toBe(false);
    expect(registry.requests).toEqual([]);
    // Even if somebody has removed its other name.
    await engine.api('DELETE', `/images/${REPOSITORY}:${second.split('@')[1]?.replace(':', '-')}`);
    await runtime.removeTag(tag, signal);
    await runtime.removeTag(tag, signal);
    expect(await imageOf(tag)).toBeUndefined();
    expect(await imageOf(second)).toMatchObject({ pinned: true, repoTags: [] });
  });

  it('believes no label of the kubelet that a container has from its image', async () => {
    const labels = { 'io.kubernetes.container.name': 'swss', 'io.kubernetes.sandbox.id': 'p1', 'io.stickpin.pin': 'x' };
    const reference = await pulled(fresh({ labels }));
    await runtime.addTag(`${REPOSITORY}:labelled`, reference, signal);
    const body = { Image: `${REPOSITORY}:labelled`, Cmd: ['/x'], HostConfig: { NetworkMode: 'none' } };
    await engine.api('POST', '/containers/create?name=customer', body);
    try {
      expect(await runtime.containers(signal)).toMatchObject([{ key: 'customer', isStartable: true }]);
      expect((await observed()).renderedPins).toEqual([]);
    } finally {
      await engine.api('DELETE', '/containers/customer?force=1');
    }
  });

  it('removes an image with its names, and none that a container uses', async () => {
    const reference = await pulled(programImage(`running-${kind}`, await programLayer()));
    const tag = `${REPOSITORY}:running`;
    await runtime.addTag(tag, reference, signal);
    await engine.api('POST', '/containers/create?name=web', { Image: tag, HostConfig: { NetworkMode: 'none' } });
    expect(await runtime.containers(signal)).toMatchObject([{ key: 'web', state: 'other', startedAt: 0 }]);
    await engine.api('POST', '/containers/web/start');
    const { imageId = '' } = (await imageOf(reference)) ?? {};
    expect(await runtime.containers(signal)).toEqual([
      {
        containerId: expect.stringMatching(/^[0-9a-f]{64}$/),
        key: 'web',
        attempt: 0,
        imageNames: [expect.stringContaining(imageId.replace('sha256:', ''))],
        podImage: tag,
        state: 'running',
        startedAt: expect.any(Number),
        exitCode: 0,
        isStartable: true,
      },
    ]);
    expect((await runtime.containers(signal))[0]?.startedAt).toBeGreaterThan(1_000_000_000_000);
    expect(await runtime.containerImages(signal)).toEqual([{ usedBy: 'container web', image: tag }]);
    await expect(runtime.removeImage(imageId, signal)).rejects.toThrow(/container web uses it/);
    await engine.api('POST', '/containers/web/kill');
    await eventually(async () => {
      expect(await runtime.containers(signal)).toMatchObject([{ key: 'web', state: 'exited', exitCode: 137 }]);
    });
    const [ended] = await runtime.containers(signal);
    expect(await runtime.containerImages(signal)).toEqual([]);
    expect(await imageOf(tag)).toMatchObject({ imageId });
    await runtime.removeContainer(ended?.containerId ?? '', signal);
    await runtime.applyPins([reference], unforced, signal);
    await runtime.removeImage(imageId, signal);
    await runtime.removeImage(imageId, signal);
    expect(await imageOf(reference)).toBeUndefined();
    expect(await imageOf(tag)).toBeUndefined();
  });

  it('ends what an earlier daemon had begun', async () => {
    const [wanted, other] = [fresh(), fresh()];
    const earlier = `f${TOKEN.slice(1)}`;
    for (const image of [wanted, other]) {
      publish(image, REPOSITORY, earlier);
      const name = `${registry.host}/${earlier}/${REPOSITORY}@${image.top.digest}`;
      await new EngineClient(engine.socketPath).pull(name, 'The pull of an earlier daemon', signal);
    }
    const reference = `${REPOSITORY}@${wanted.top.digest}`;
    await runtime.applyPins([reference], unforced, signal);
    expect((await namesInEngine()).filter((name) => name.startsWith('127.'))).toEqual([]);
    expect(await imageOf(reference)).toMatchObject({ pinned: true });
  });

  it('names the reason of a failed pull', async () => {
    const layer = sampleLayer({ seed: `layer-${kind}` });
    const reference = publish(fresh({ layers: [layer] }));
    registry.breakDown(layer.digest, { kind: 'corrupt', atByte: 5_000 });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    const missing = fresh();
    const lacking = publish(missing);
    registry.drop(missing.layers[0]?.digest ?? '');
    await expect(runtime.pull(lacking, signal)).rejects.toMatchObject({ code: 'runtime/not-found' });
    const unknown = runtime.pull(`${REPOSITORY}@${fresh().top.digest}`, signal);
    await expect(unknown).rejects.toMatchObject({ code: 'runtime/not-found' });
  });

  it('cancels a pull on the wire', async () => {
    const layer = sampleLayer({ seed: `stalled-${kind}` });
    const reference = publish(fresh({ layers: [layer] }));
    registry.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const stop = new AbortController();
    const refused = expect(runtime.pull(reference, stop.signal)).rejects.toMatchObject({ code: 'runtime/cancelled' });
    await eventually(() => expect(registry.bytesSent(layer.digest)).toBe(100), 20_000);
    stop.abort();
    await refused;
    registry.mend(layer.digest);
    await runtime.pull(reference, signal);
  });

  it('keeps pins over a restart, and says when it is away', async () => {
    const reference = await pinned();
    await engine.kill();
    expect(await runtime.observe(signal)).toMatchObject({
      kind: 'unreachable',
      reason: `nothing answers on ${engine.socketPath}`,
    });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    await engine.start();
    expect((await observed()).renderedPins).toEqual([reference]);
    expect(await imageOf(reference)).toMatchObject({ pinned: true });
  });
});
