import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runSkopeo } from '../../../../src/factory/images/skopeo.ts';
import { installKeys, makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { digestOf, sampleImage, sampleLayer, seededBytes } from '../../../support/bundles/sample-image.ts';
import { type Ask, ask, type ServingCommand, startServing } from '../../../support/bundles/served-bundle.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { ended } from '../../../support/matching.ts';
import { have } from '../../../support/requirements.ts';
import { runCommand } from '../../../support/run-command.ts';

const { signal } = new AbortController();
const TAGS = ['3.5.9', '3.5.9-rev1', '3.5.9-rev1-b2', 'Latest', 'alpha'];
const ETCD = 'quay.example.com/coreos/etcd';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const none = digestOf(Buffer.from('hello world'));

const etcd = sampleImage({
  seed: 'etcd',
  architecture: 'amd64',
  layers: [sampleLayer({ seed: 'big', sizeBytes: 3 * 1024 ** 2 }), sampleLayer({ seed: 'small' })],
});
const proxy = sampleImage({ seed: 'proxy', architecture: 'amd64', withIndex: true });
const [bigLayer, smallLayer] = etcd.layers;
if (bigLayer === undefined || smallLayer === undefined) throw new Error('the sample has two layers');

const root = folderForAll();
let bundle: SampleBundle;
let served: ServingCommand;

beforeAll(async () => {
  bundle = await makeSampleBundle({
    dir: root,
    arch: 'amd64',
    images: [
      ...TAGS.map((tag) => ({ reference: `${ETCD}:${tag}`, image: etcd })),
      { reference: 'quay.example.com/edge/proxy:1', image: proxy },
      { reference: 'docker.example.com/edge/proxy:2', image: proxy },
      { reference: 'localhost:5000/app:1', image: etcd },
    ],
  });
  installKeys(join(root, 'keys.d'), bundle.keys);
});
beforeEach(async () => {
  served = await startServing(bundle.path);
});
afterEach(async () => {
  await served.stop();
});

const get = (path: string, options?: Ask) => ask(served.authority, path, options);
const at = (rest: string) => `/v2/${ETCD}/${rest}`;
const errorOf = (body: Buffer) => JSON.parse(body.toString()).errors[0];
const blobFile = (of: string, digest: string) => join(of, 'blobs', 'sha256', digest.slice(7));

describe('bundle serve: the pull category of the distribution conformance tests', () => {
  it.each(['GET', 'HEAD'])('%s of what does not exist is 404', async (method) => {
    for (const path of [at(`blobs/${none}`), at(`manifests/${none}`), at('manifests/.INVALID_MANIFEST_NAME')]) {
      expect((await get(path, { method })).status).toBe(404);
    }
  });

  it.each(['GET', 'HEAD'])('%s of a blob is 200, with digest and size', async (method) => {
    const { status, headers, body } = await get(at(`blobs/${etcd.config.digest}`), { method });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'docker-content-digest': etcd.config.digest,
      'content-length': String(etcd.config.sizeBytes),
    });
    expect(body).toEqual(method === 'GET' ? etcd.config.bytes : Buffer.alloc(0));
  });

  it.each([
    ['GET', 'digest', etcd.manifest.digest],
    ['HEAD', 'digest', etcd.manifest.digest],
    ['GET', 'tag', '3.5.9'],
    ['HEAD', 'tag', '3.5.9'],
  ])('%s of a manifest by %s is 200', async (method, _by, reference) => {
    const { status, headers, body } = await get(at(`manifests/${reference}`), {
      method,
      headers: { accept: MANIFEST },
    });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-type': MANIFEST,
      'docker-content-digest': etcd.manifest.digest,
      'content-length': String(etcd.manifest.sizeBytes),
    });
    expect(body).toEqual(method === 'GET' ? etcd.manifest.bytes : Buffer.alloc(0));
  });

  it('gives an index and, by digest, the manifest in it', async () => {
    const path = '/v2/quay.example.com/edge/proxy';
    const index = await get(`${path}/manifests/1`, { headers: { accept: INDEX } });
    expect([index.status, index.headers['content-type']]).toEqual([200, INDEX]);
    expect(index.body).toEqual(proxy.index?.bytes);
    expect((await get(`${path}/manifests/${proxy.manifest.digest}`)).body).toEqual(proxy.manifest.bytes);
    expect((await get(`${path}/blobs/${proxy.config.digest}`)).body).toEqual(proxy.config.bytes);
  });

  it('answers errors in the form of the specification', async () => {
    const { status, headers, body } = await get(at('manifests/sha256:totallywrong'));
    expect([status, headers['content-type']]).toEqual([400, 'application/json']);
    expect(errorOf(body)).toEqual({ code: 'DIGEST_INVALID', message: expect.any(String) });
    expect(errorOf((await get(at(`blobs/${none}`))).body)).toMatchObject({
      code: 'BLOB_UNKNOWN',
      detail: { digest: none },
    });
    expect(errorOf((await get('/v2/coreos/none/tags/list')).body)).toMatchObject({
      code: 'NAME_UNKNOWN',
      detail: { name: 'coreos/none' },
    });
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])('is read-only: %s', async (method) => {
    const { status, headers, body } = await get(at('blobs/uploads/'), { method });
    expect([status, headers.allow, errorOf(body).code]).toEqual([405, 'GET, HEAD', 'UNSUPPORTED']);
  });
});

describe('bundle serve: tags', () => {
  it('are listed in lexical order, regardless of case', async () => {
    const { status, body } = await get(at('tags/list'));
    expect([status, JSON.parse(body.toString())]).toEqual([
      200,
      { name: ETCD, tags: ['3.5.9', '3.5.9-rev1', '3.5.9-rev1-b2', 'alpha', 'Latest'] },
    ]);
  });

  it('are listed in pages that link to the next', async () => {
    const seen: string[] = [];
    let path: string | undefined = at('tags/list?n=2');
    let pages = 0;
    while (path !== undefined) {
      const { headers, body } = await get(path);
      seen.push(...JSON.parse(body.toString()).tags);
      const link: string | undefined = headers.link === undefined ? undefined : String(headers.link);
      path = link === undefined ? undefined : /^<([^>]+)>; rel="next"$/.exec(link)?.[1];
      pages += 1;
    }
    expect([pages, seen]).toEqual([3, ['3.5.9', '3.5.9-rev1', '3.5.9-rev1-b2', 'alpha', 'Latest']]);
  });

  it.each([
    ['n=0', []],
    ['n=99', ['3.5.9', '3.5.9-rev1', '3.5.9-rev1-b2', 'alpha', 'Latest']],
    ['n=1&last=3.5.9', ['3.5.9-rev1']],
    ['last=alpha', ['Latest']],
    ['last=b-tag-that-is-not-there', ['Latest']],
    ['n=3&last=Latest', []],
  ])('with %s', async (query, tags) => {
    const { headers, body } = await get(at(`tags/list?${query}`));
    expect(JSON.parse(body.toString()).tags).toEqual(tags);
    expect(headers.link === undefined).toBe(query !== 'n=1&last=3.5.9');
  });

  it('refuse a page size that is not a valid number', async () => {
    for (const n of ['-1', 'x', '', '1e3', '9'.repeat(40)]) {
      expect((await get(at(`tags/list?n=${n}`))).status).toBe(400);
    }
  });
});

describe('bundle serve: conditions and parts', () => {
  const layer = () => at(`blobs/${bigLayer.digest}`);

  it('answers 304 to a client that has it already', async () => {
    for (const [path, digest] of [
      [layer(), bigLayer.digest],
      [at('manifests/3.5.9'), etcd.manifest.digest],
    ] as const) {
      const { headers } = await get(path, { method: 'HEAD' });
      expect(headers.etag).toBe(`"${digest}"`);
      for (const condition of [`"${digest}"`, `W/"${digest}"`, `"other", "${digest}"`, '*']) {
        const answer = await get(path, { headers: { 'if-none-match': condition } });
        expect([answer.status, answer.body.length, answer.headers.etag]).toEqual([304, 0, `"${digest}"`]);
      }
      expect((await get(path, { method: 'HEAD', headers: { 'if-none-match': `"${none}"` } })).status).toBe(200);
    }
  });

  it('gives parts, and the rest of a blob', async () => {
    for (const [range, first, last] of [
      ['bytes=0-9', 0, 9],
      ['bytes=1000000-', 1_000_000, bigLayer.sizeBytes - 1],
      ['bytes=-5', bigLayer.sizeBytes - 5, bigLayer.sizeBytes - 1],
    ] as const) {
      const { status, headers, body } = await get(layer(), { headers: { range } });
      expect([status, headers['content-range']]).toEqual([206, `bytes ${first}-${last}/${bigLayer.sizeBytes}`]);
      expect(body.equals(bigLayer.bytes.subarray(first, last + 1))).toBe(true);
    }
    const beyond = await get(layer(), { headers: { range: `bytes=${bigLayer.sizeBytes}-` } });
    expect([beyond.status, beyond.headers['content-range']]).toEqual([416, `bytes */${bigLayer.sizeBytes}`]);
  });

  it.each(['bytes=0-1,5-6', 'bytes=9-5', 'bytes=x', 'lines=0-1', 'bytes', ' ', 'bytes=--1', 'bytes=0x1-'])(
    'gives all of it for the range %j',
    async (range) => {
      const { status, body } = await get(at(`blobs/${smallLayer.digest}`), { headers: { range } });
      expect([status, body.equals(smallLayer.bytes)]).toEqual([200, true]);
    },
  );

  it('sends the rest only of the same content that the client began with', async () => {
    const part = (validator: string) => get(layer(), { headers: { range: 'bytes=5-9', 'if-range': validator } });
    expect((await part(`"${bigLayer.digest}"`)).status).toBe(206);
    expect((await part(`W/"${bigLayer.digest}"`)).status).toBe(200);
    expect((await part(`"${none}"`)).status).toBe(200);
    expect((await part('Wed, 21 Oct 2026 07:28:00 GMT')).status).toBe(200);
  });

  it('sends a manifest only to a client that accepts its type', async () => {
    const status = async (accept: string) => (await get(at('manifests/alpha'), { headers: { accept } })).status;
    expect(await status(`text/html, ${MANIFEST};q=0.5`)).toBe(200);
    expect(await status('application/*')).toBe(200);
    expect(await status('*/*')).toBe(200);
    expect(await status(INDEX)).toBe(404);
    expect(await status(`${MANIFEST};q=0`)).toBe(404);
  });
});

describe('bundle serve: paths', () => {
  it('contain the registry, which may be left out where only one registry has the repository', async () => {
    expect(served.report.repositories).toEqual([
      { name: ETCD, paths: [ETCD, 'coreos/etcd'], tags: TAGS },
      { name: 'quay.example.com/edge/proxy', paths: ['quay.example.com/edge/proxy'], tags: ['1'] },
      { name: 'docker.example.com/edge/proxy', paths: ['docker.example.com/edge/proxy'], tags: ['2'] },
      { name: 'localhost:5000/app', paths: ['localhost__5000/app', 'app'], tags: ['1'] },
    ]);
    for (const path of ['coreos/etcd', 'app', 'localhost__5000/app']) {
      expect((await get(`/v2/${path}/blobs/${etcd.config.digest}`)).status).toBe(200);
    }
    expect(errorOf((await get('/v2/edge/proxy/tags/list')).body).code).toBe('NAME_UNKNOWN');
  });

  it('use the registry that containerd names in the ns parameter', async () => {
    const tags = async (query: string) =>
      JSON.parse((await get(`/v2/edge/proxy/tags/list?${query}`)).body.toString()).tags;
    expect(await tags('ns=quay.example.com')).toEqual(['1']);
    expect(await tags('ns=docker.example.com')).toEqual(['2']);
    expect((await get('/v2/coreos/etcd/tags/list?ns=docker.example.com')).status).toBe(404);
    expect((await get(`/v2/app/tags/list?ns=localhost%3A5000`)).status).toBe(200);
  });

  it('serve only what belongs to their repository', async () => {
    expect((await get(at(`blobs/${proxy.config.digest}`))).status).toBe(404);
    expect((await get(at(`manifests/${proxy.manifest.digest}`))).status).toBe(404);
    expect((await get(at(`blobs/${bundle.payload.contents.digest}`))).status).toBe(404);
  });
});

describe('bundle serve: clients that are slow, many or strange', () => {
  it('serves 200 clients at once, while one of them reads nothing', async () => {
    const [host = '', port] = served.authority.split(':');
    const slow = connect(Number(port), host);
    slow.write(`GET ${at(`blobs/${bigLayer.digest}`)} HTTP/1.1\r\nhost: x\r\n\r\n`);
    slow.pause();
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_none, at_) =>
        get(at(`blobs/${at_ % 4 === 0 ? bigLayer.digest : smallLayer.digest}`)),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(answers.every(({ body }, at_) => digestOf(body) === (at_ % 4 === 0 ? bigLayer : smallLayer).digest)).toBe(
      true,
    );
    slow.destroy();
    expect(served.stderr()).toBe('');
  }, 30_000);

  async function raw(...requests: readonly string[]): Promise<string> {
    const [host = '', port] = served.authority.split(':');
    const socket = connect(Number(port), host);
    socket.write(requests.join(''));
    return text(socket);
  }

  it('answers HTTP/1.0, and pipelined requests in their order', async () => {
    const old = await raw(`GET ${at(`blobs/${etcd.config.digest}`)} HTTP/1.0\r\n\r\n`);
    expect(old).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(old.endsWith(`\r\n\r\n${etcd.config.bytes}`)).toBe(true);
    const piped = await raw(
      `HEAD ${at(`blobs/${etcd.config.digest}`)} HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET ${at('manifests/none')} HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET ${at('tags/list?n=1')} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
    );
    expect(piped.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
    expect(piped).toMatch(/"tags":\["3\.5\.9"\]}$/);
  });

  it.each([
    ['a way out', `/v2/../../etc/passwd`, 404],
    ['an encoded way out', `/v2/${ETCD}/%2e%2e/%2e%2e/blobs/${none}`, 400],
    ['an encoded digest', `/v2/coreos/etcd/blobs/${encodeURIComponent(etcd.config.digest)}`, 200],
    ['an encoded letter', `/v2/%63oreos/etcd/blobs/${etcd.config.digest}`, 200],
    ['a long name', `/v2/${'a/'.repeat(4_000)}b/tags/list`, 404],
    ['a name beyond all limits', `/v2/${'a'.repeat(40_000)}/tags/list`, 431],
    ['a NUL', `/v2/coreos%00/etcd/tags/list`, 400],
    ['the catalog', '/v2/_catalog', 404],
  ])('answers %s', async (_what, path, status) => {
    expect((await get(path)).status).toBe(status);
    expect((await get('/v2/')).status).toBe(200);
  });

  it('logs nothing about a client that disconnects', async () => {
    const [host = '', port] = served.authority.split(':');
    const socket = connect(Number(port), host);
    socket.write(`GET ${at(`blobs/${bigLayer.digest}`)} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await new Promise((resolve) => socket.once('data', resolve));
    socket.destroy();
    await get(at('manifests/alpha'));
    expect((await served.stop()).stderr).toBe('');
  });
});

describe('bundle serve: what is damaged', () => {
  let copy: string;
  beforeEach(async () => {
    await served.stop();
    copy = join(mkdtempSync(join(root, 'copy-')), 'bundle');
    cpSync(bundle.path, copy, { recursive: true });
  });

  const damage = (digest: string, atByte: number) => flipByte(blobFile(copy, digest), atByte);

  it.each([
    ['from its beginning', {}],
    ['from its middle on', { range: 'bytes=1500000-' }],
    ['its middle', { range: 'bytes=1500000-1500009' }],
  ])('is not sent to its end: %s', async (_what, headers) => {
    served = await startServing(copy);
    damage(bigLayer.digest, 42);
    await expect(get(at(`blobs/${bigLayer.digest}`), { headers })).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    expect(served.stderr()).toMatch(new RegExp(`^stickpin: Registry: ${bigLayer.digest} broke off: .*damaged.*\n$`));
    expect((await get(at(`blobs/${smallLayer.digest}`))).body).toEqual(smallLayer.bytes);
  });

  it('is sent again once it is repaired', async () => {
    served = await startServing(copy);
    damage(bigLayer.digest, 42);
    const rest = () => get(at(`blobs/${bigLayer.digest}`), { headers: { range: 'bytes=10-' } });
    await expect(rest()).rejects.toThrow();
    damage(bigLayer.digest, 42);
    expect((await rest()).body.equals(bigLayer.bytes.subarray(10))).toBe(true);
  });

  it('is checked again when its file changed after the first check', async () => {
    served = await startServing(copy);
    const rest = () => get(at(`blobs/${bigLayer.digest}`), { headers: { range: 'bytes=10-' } });
    expect((await rest()).body.equals(bigLayer.bytes.subarray(10))).toBe(true);
    const file = blobFile(copy, bigLayer.digest);
    const { atime, mtime } = statSync(file);
    damage(bigLayer.digest, 42);
    utimesSync(file, atime, mtime);
    await expect(rest()).rejects.toThrow(/aborted|hang up|ECONNRESET/);
    expect(served.stderr()).toMatch(/broke off: .*damaged/);
  });

  it('is not sent when it is a manifest', async () => {
    served = await startServing(copy);
    damage(etcd.manifest.digest, 3);
    await expect(get(at('manifests/alpha'))).rejects.toThrow(/hang up|ECONNRESET/);
    expect(served.stderr()).toMatch(/a request failed: .*damaged/);
  });

  it('is reported at the start, as are blobs that are cut short or missing', async () => {
    truncateSync(blobFile(copy, bigLayer.digest), 100);
    rmSync(blobFile(copy, smallLayer.digest));
    served = await startServing(copy);
    expect(served.stderr()).toContain("2 blobs of the bundle can't be served; see stickpin bundle verify");
    expect((await get(at(`blobs/${smallLayer.digest}`))).status).toBe(404);
    await expect(get(at(`blobs/${bigLayer.digest}`))).rejects.toThrow();
  });

  it('in its contents or its index is not served at all', async () => {
    for (const file of ['index.json', join('blobs', 'sha256', bundle.payload.contents.digest.slice(7))]) {
      const before = readFileSync(join(copy, file));
      writeFileSync(join(copy, file), Buffer.concat([before.subarray(1), Buffer.from(' ')]));
      const run = await runCommand(['bundle', 'serve', copy, '--listen', '127.0.0.1:0']);
      expect(run).toMatchObject({ exitCode: 4, stdout: '', stderr: expect.stringMatching(/^stickpin: .*copy.*\n$/) });
      writeFileSync(join(copy, file), before);
    }
  });
});

describe('bundle serve: from start to end', () => {
  it('prints what it serves, who signed it and how to pull; an interrupt ends it', async () => {
    await served.stop();
    const interrupt = new AbortController();
    const run = await runCommand(
      ['bundle', 'serve', bundle.path, '--listen', '127.0.0.1:0', '--keys', join(root, 'keys.d')],
      { signal: interrupt.signal, onOutput: (stdout) => stdout.includes('TAGS') && interrupt.abort() },
    );
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    expect(run.stdout).toMatch(/^ocp 4\.13\.7 for amd64, \d images: signature by factory-2026 ok\n/);
    expect(run.stdout).toMatch(
      /skopeo .*copy --src-tls-verify=false docker:\/\/127\.0\.0\.1:\d+\/quay\.example\.com\/coreos\/etcd:3\.5\.9 /,
    );
    expect(run.stdout).toMatch(/ctr .*--plain-http 127\.0\.0\.1:\d+\/quay/);
    expect(run.stdout).toMatch(/quay\.example\.com\/coreos\/etcd, coreos\/etcd +3\.5\.9, /);
  });

  it('drops its connections when it is interrupted', async () => {
    const [host = '', port] = served.authority.split(':');
    const socket = connect(Number(port), host);
    socket.write(`GET ${at(`blobs/${bigLayer.digest}`)} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await new Promise((resolve) => socket.once('data', resolve));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined).resume();
    expect(await served.stop()).toMatchObject({ exitCode: 0, stderr: '' });
    await closed;
    await expect(get('/v2/')).rejects.toThrow(/ECONNREFUSED/);
  });

  it('states without keys that the signature was not judged, and with keys refuses bundles that they did not sign', async () => {
    expect(served.report).toMatchObject({ verified: false, signedBy: [], bundleId: bundle.bundleId });
    await served.stop();
    served = await startServing(bundle.path, '--keys', join(root, 'keys.d'));
    expect(served.report).toMatchObject({ verified: true, signedBy: ['factory-2026'] });
    const empty = mkdtempSync(join(root, 'no-keys-'));
    const run = await runCommand(['bundle', 'serve', bundle.path, '--listen', '127.0.0.1:0', '--keys', empty]);
    expect(run).toMatchObject(ended(4, /no trusted key is installed/));
  });

  it('names a port that is in use, in one line', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const run = await runCommand(['bundle', 'serve', bundle.path, '--listen', `127.0.0.1:${port}`]);
    other.close();
    expect(run).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(`^stickpin: 127\\.0\\.0\\.1:${port} can't be .*EADDRINUSE.*--listen.*\\n$`),
      ),
    });
  });

  it('warns when other machines may reach it, and only then', async () => {
    expect(served.stderr()).toBe('');
    await served.stop();
    served = await startServing(bundle.path, '--listen', '0.0.0.0:0');
    expect(served.stderr()).toMatch(
      /^stickpin: whoever reaches 0\.0\.0\.0:\d+ over the network may pull .*--listen 127.*\n$/,
    );
  });

  it('shows its default address in the help', async () => {
    expect((await runCommand(['bundle', 'serve', '--help'])).stdout).toMatch(/\(default:\s+127\.0\.0\.1:5000\)/);
  });

  it.each(['5000', '127.0.0.1', '127.0.0.1:x', '127.0.0.1:70000', '::1:5000'])(
    'refuses %s as an address',
    async (listen) => {
      expect((await runCommand(['bundle', 'serve', bundle.path, '--listen', listen])).exitCode).toBe(2);
    },
  );

  it('serves a tar file, and a bundle in volumes as a whole', async () => {
    await served.stop();
    const volumes = join(root, 'volumes');
    for (const volume of ['1', '2']) cpSync(bundle.path, join(volumes, volume), { recursive: true });
    rmSync(blobFile(join(volumes, '1'), bigLayer.digest));
    rmSync(blobFile(join(volumes, '2'), smallLayer.digest));
    const tar = join(root, 'it.stickpin.tar');
    execFileSync('tar', ['-cf', tar, '-C', bundle.path, 'bundle.dsse.json', 'oci-layout', 'index.json', 'blobs']);
    for (const path of [volumes, tar]) {
      served = await startServing(path);
      expect(served.stderr()).toBe('');
      for (const layer of etcd.layers) {
        expect((await get(at(`blobs/${layer.digest}`))).body.equals(layer.bytes)).toBe(true);
        const rest = await get(at(`blobs/${layer.digest}`), { headers: { range: 'bytes=7-' } });
        expect(rest.body.equals(layer.bytes.subarray(7))).toBe(true);
      }
      await served.stop();
    }
  });
});

describe.runIf(have('skopeo'))('bundle serve: skopeo', () => {
  const skopeo = (...args: string[]) => runSkopeo(args, 'it', signal);
  const insecure = '--tls-verify=false';

  it('copies from it, inspects it and lists its tags', async () => {
    const out = join(root, 'copied');
    await skopeo(
      'copy',
      '--quiet',
      '--preserve-digests',
      '--src-tls-verify=false',
      `docker://${served.authority}/coreos/etcd:3.5.9`,
      `dir:${out}`,
    );
    expect(readFileSync(join(out, 'manifest.json'))).toEqual(etcd.manifest.bytes);
    for (const { digest, bytes } of [etcd.config, ...etcd.layers]) {
      expect(readFileSync(join(out, digest.slice(7))).equals(bytes)).toBe(true);
    }
    const name = `docker://${served.authority}/quay.example.com/edge/proxy:1`;
    expect(digestOf(await skopeo('inspect', '--raw', insecure, name))).toBe(proxy.index?.digest);
    const inspected = JSON.parse((await skopeo('--override-arch', 'amd64', 'inspect', insecure, name)).toString());
    expect(inspected.Architecture).toBe('amd64');
    const listed = JSON.parse((await skopeo('list-tags', insecure, `docker://${served.authority}/${ETCD}`)).toString());
    expect(listed.Tags).toEqual(['3.5.9', '3.5.9-rev1', '3.5.9-rev1-b2', 'alpha', 'Latest']);
  });

  it('does not take a damaged image for a good one', async () => {
    await served.stop();
    const copy = join(root, 'bad');
    cpSync(bundle.path, copy, { recursive: true });
    writeFileSync(blobFile(copy, smallLayer.digest), seededBytes('other', smallLayer.sizeBytes));
    served = await startServing(copy);
    const name = `docker://${served.authority}/coreos/etcd:alpha`;
    await expect(
      skopeo('copy', '--quiet', '--retry-times', '0', '--src-tls-verify=false', name, `dir:${join(root, 'never')}`),
    ).rejects.toMatchObject({ code: 'bundle/skopeo' });
    expect(served.stderr()).toContain(`${smallLayer.digest} broke off`);
  });
});
