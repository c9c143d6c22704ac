import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EngineClient } from '../../../src/runtime/docker/engine-client.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

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
    expect(await client.containers(signal)).toEqual([{ ...container, Labels: {} }]);
    expect(leftOut).toEqual(['container bad (c1)']);
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
