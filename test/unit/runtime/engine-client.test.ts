import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { imagesInUse, listContainers } from '../../../src/runtime/docker/containers.ts';
import { createDockerRuntime } from '../../../src/runtime/docker/docker-runtime.ts';
import { UNREAD } from '../../../src/runtime/docker/engine-answers.ts';
import { EngineClient } from '../../../src/runtime/docker/engine-client.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

const signal = new AbortController().signal;
const folder = folderForEach();
const leftOut: string[] = [];
let answers: Readonly<Record<string, unknown>>;
let server: Server;
let client: EngineClient;

beforeEach(async () => {
  leftOut.length = 0;
  const socketPath = join(folder, 'engine.sock');
  server = createServer(({ url = '' }, response) => {
    const path = url.replace(/^\/v[\d.]+/, '').replace(/\?.*$/, '');
    const answer = path === '/version' ? { Version: '1', ApiVersion: '1.41' } : answers[path];
    response.writeHead(answer === undefined ? 404 : 200);
    response.end(Buffer.isBuffer(answer) ? answer : JSON.stringify(answer ?? { message: 'none' }));
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  client = new EngineClient(socketPath, 20_000, (names) => leftOut.push(...names));
});
afterEach(async () => {
  client.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function podman() {
  const units = { reloadUnit: () => Promise.reject(new Error('none')), onUnitChange: () => () => undefined };
  const mirror = { authority: '127.0.0.1:5000', token: '0'.repeat(32) };
  const parts = { title: 'Podman', socketPath: client.socketPath, unitNames: [], units, mirror };
  return createDockerRuntime({ ...parts, log: createRecordingLog() });
}

/** The container that pins the image `i`. */
function pinOf(reference: string) {
  const name = `/stickpin-pin-${createHash('sha256').update(reference).digest('hex').slice(0, 24)}`;
  return { Id: 'c1', Names: [name], ImageID: 'i', State: 'created', Labels: { 'io.stickpin.pin': reference } };
}

describe('lists of Docker', () => {
  const image = (at: number) => ({ Id: `sha256:${at}`, RepoTags: [`a:${at}`], RepoDigests: null, Labels: { a: 'b' } });

  it('have any number of entries', async () => {
    answers = { '/images/json': Array.from({ length: 12_000 }, (_, at) => image(at)) };
    const found = await client.listImages(signal);
    expect(found).toHaveLength(12_000);
    expect(found.at(-1)).toEqual({ Id: 'sha256:11999', RepoTags: ['a:11999'], RepoDigests: [] });
    expect(leftOut).toEqual([]);
  });

  it('are used without an entry that can not be read, which is named', async () => {
    const huge = { ...image(2), RepoTags: [`a:${'x'.repeat(5_000)}`] };
    answers = { '/images/json': [image(1), huge, { Id: 7 }, image(3)] };
    expect((await client.listImages(signal)).map(({ Id }) => Id)).toEqual(['sha256:1', 'sha256:3']);
    expect(leftOut).toEqual(['image sha256:2', 'image without an id']);
    leftOut.length = 0;
    const container = { Id: 'c1', Names: ['/a'], ImageID: 'i', State: 'running', Labels: { other: 'x'.repeat(9_000) } };
    answers = { '/containers/json': [{ ...container, Names: ['/bad'], State: 1 }, container] };
    expect(await client.containers(signal)).toEqual([{ ...container, Labels: {} }, UNREAD]);
    expect(leftOut).toEqual(['container bad (c1)']);
  });

  it('never take away that an image may be in use by a container that can not be read', async () => {
    const container = { Id: 'c1', Names: ['/a'], ImageID: 'i', State: 'exited', Labels: {} };
    const unknown = expect.objectContaining({ state: 'other', imageNames: [], volumeImages: 'unknown' });
    const used = [{ usedBy: 'a container that can not be read', image: '', pullPolicy: 'Never' }];
    answers = { '/containers/json': [container], '/containers/c1/json': { Id: 'c1' } };
    expect(await listContainers(client, signal)).toEqual([unknown]);
    expect(await imagesInUse(client, signal)).toEqual(used);
    answers = { '/containers/json': [{ ...container, State: 1 }] };
    expect(await listContainers(client, signal)).toEqual([unknown]);
    expect(await imagesInUse(client, signal)).toEqual(used);
    answers = { '/containers/json': [container] };
    expect(await listContainers(client, signal)).toEqual([]);
    answers = { '/containers/json': [{ ...container, Names: 7 }] };
    const runtime = podman();
    await expect(runtime.removeImage('i', signal)).rejects.toThrow('container that can not be read uses it');
    runtime.close();
  });

  it('hold a pin whose image Podman lists once for each store, and not one without its tag', async () => {
    const reference = `quay.io/a@sha256:${'a'.repeat(64)}`;
    const tagged = { Id: 'i', RepoTags: [`quay.io/a:sha256-${'a'.repeat(64)}`], RepoDigests: [] };
    const untagged = { ...tagged, RepoTags: [] };
    const runtime = podman();
    const rendered = async (...images: object[]) => {
      const info = { DockerRootDir: '/', Driver: 'overlay', DriverStatus: [] };
      answers = { '/_ping': 'OK', '/info': info, '/containers/json': [pinOf(reference)], '/images/json': images };
      return runtime.observe(signal);
    };
    expect(await rendered(tagged, untagged)).toMatchObject({ renderedPins: [reference], foundPins: [reference] });
    expect(await rendered(untagged)).toMatchObject({ renderedPins: [], foundPins: [reference] });
    runtime.close();
  });

  it('have no image of a store that Podman only reads, which nobody can remove, unless it is pinned', async () => {
    const entry = { Id: 'i', RepoTags: ['quay.io/a:1'], RepoDigests: [] };
    const reference = `quay.io/a@sha256:${'a'.repeat(64)}`;
    const listed = async (container: object[]) => {
      answers = {
        '/containers/json': container,
        '/images/json': [
          { ...entry, ReadOnly: true },
          { ...entry, Id: 'j' },
        ],
      };
      const runtime = podman();
      const ids = [await runtime.image('i', signal), await runtime.image('j', signal)].map((one) => one?.imageId);
      runtime.close();
      return ids;
    };
    expect(await listed([])).toEqual([undefined, 'j']);
    expect(await listed([pinOf(reference)])).toEqual(['i', 'j']);
  });

  it('believe labels of the kubelet only of a container with its name: images have labels, too', async () => {
    const labels = { 'io.kubernetes.container.name': 'swss', 'io.kubernetes.sandbox.id': 'p1' };
    const listed = (Name: string) => {
      const State = { Status: 'exited', ExitCode: 0, StartedAt: '2026-01-01T00:00:00Z' };
      const details = {
        Id: 'c1',
        Name,
        Image: 'sha256:1',
        State,
        Config: { Image: 'a:1', Labels: labels },
        Mounts: [],
      };
      const entry = { Id: 'c1', Names: [Name], ImageID: 'sha256:1', State: 'exited', Labels: labels };
      answers = { '/containers/json': [entry], '/containers/c1/json': details };
      return listContainers(client, signal);
    };
    expect(await listed('/customer')).toMatchObject([{ key: 'customer', isStartable: true }]);
    expect(await listed('/k8s_swss_pod_ns_uid_0')).toMatchObject([{ key: 'p1/swss', isStartable: false }]);
  });

  it.each(['', ' ', '{}', '""', 'nul', 'none'])('are refused for the answer %j, which is no list', async (text) => {
    answers = { '/images/json': Buffer.from(text), '/containers/json': Buffer.from(text) };
    await expect(client.listImages(signal)).rejects.toThrow('its answer is no list');
    await expect(client.containers(signal)).rejects.toThrow('its answer is no list');
  });

  it.each(['null', '[]', '\n [ ]'])('are empty for the answer %j', async (text) => {
    answers = { '/images/json': Buffer.from(text) };
    expect(await client.listImages(signal)).toEqual([]);
  });

  it('are refused as a whole where the engine refuses them', async () => {
    answers = {};
    await expect(client.listImages(signal)).rejects.toMatchObject({ code: 'runtime/not-found' });
    expect(await client.imageDetails('a', signal)).toBeUndefined();
  });
});
