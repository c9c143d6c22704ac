import { execFileSync } from 'node:child_process';
import { sign, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createPlainServer, type Server } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FACTORY_DOCUMENTS } from '../../../src/cli/schema/factory-documents.ts';
import {
  installKeys,
  makeSampleBundle,
  ocpImages,
  type SampleBundle,
  sampleKey,
} from '../../support/bundles/sample-bundle.ts';
import { sampleArtifact, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { type DockerRegistry, startDockerRegistry } from '../../support/registry/docker-registry.ts';
import { type Front, startFront } from '../../support/registry/front.ts';
import { makeTls, type OwnTls } from '../../support/registry/tls.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const MiB = 1024 * 1024;
const work = folderForAll();
const key = sampleKey();
const below = [sampleLayer({ seed: 'base', sizeBytes: MiB })];
const images = ocpImages(['web', 'db'], { sizeBytes: 3 * MiB, below });
const withIndex = {
  reference: 'quay.example.com/ocp/multi:1.0.0',
  image: sampleImage({ seed: 'multi', withIndex: true }),
};

const json = ({ stdout, stderr }: { stdout: string; stderr: string }) => {
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
};

describe.runIf(have('mmdebstrap', 'openssl'))('a bundle in a registry', () => {
  let registry: DockerRegistry;
  let front: Front;
  let bundle: SampleBundle;
  let keys: string;
  let out: string;
  let home: string | undefined;
  let tls: OwnTls;

  const push = (path: string, reference: string, ...more: string[]) =>
    runCommand(['bundle', 'push', path, reference, '--json', ...more]);
  const pull = (reference: string, ...more: string[]) =>
    runCommand(['bundle', 'pull', reference, '--out', join(out, 'pulled'), '--json', ...more]);
  const verify = async (path = join(out, 'pulled')) =>
    (await runCommand(['bundle', 'verify', path, '--keys', keys, '--full'])).stdout;
  const asked = (method: string, what: RegExp) =>
    front.requests.filter((one) => one.method === method && what.test(one.path));
  const uploads = () => asked('PUT', /\/blobs\/uploads\//);
  const downloads = () => asked('GET', /\/blobs\/sha256/);

  beforeAll(async () => {
    tls = makeTls(work);
    registry = await startDockerRegistry({ folder: work });
    front = await startFront(registry.host, tls.pem);
    home = process.env.HOME;
    process.env.HOME = work;
    trustCertificateOf(front.host);
    keys = join(work, 'keys');
    installKeys(keys, [key]);
    const chart = {
      reference: 'quay.example.com/charts/shop:1',
      image: sampleArtifact({ files: { a: Buffer.from('a') } }),
    };
    writeFileSync(join(work, 'notes.txt'), 'read me');
    bundle = await makeSampleBundle({
      dir: work,
      keys: [key],
      images: [...images, withIndex],
      artifacts: [chart],
      attachments: [{ name: 'notes.txt', mediaType: 'text/plain', path: join(work, 'notes.txt') }],
    });
  });
  afterAll(async () => {
    if (home !== undefined) process.env.HOME = home;
    await front?.close();
    await registry?.close();
  });
  beforeEach(() => {
    out = mkdtempSync(join(work, 'out-'));
    front.requests.splice(0);
    front.meddle = () => undefined;
  });

  /** containers-certs.d(5). */
  function trustCertificateOf(host: string): void {
    const folder = join(work, '.config/containers/certs.d', host);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'ca.crt'), readFileSync(tls.certificate));
  }

  it('is pushed and pulled whole, with an index, an artifact and an attachment', async () => {
    const reference = `${front.host}/bundles/ocp:4.13`;
    const pushed = json(await push(bundle.path, reference));
    expect(v.is(FACTORY_DOCUMENTS['bundle-push'], pushed)).toBe(true);
    expect(pushed).toMatchObject({ reference, bundleId: bundle.bundleId, sentBlobs: pushed.blobs });
    const [last] = front.requests.slice(-1);
    expect(last).toMatchObject({ method: 'PUT', path: '/v2/bundles/ocp/manifests/4.13', status: 201 });
    const pulled = json(await pull(reference, '--keys', keys));
    expect(v.is(FACTORY_DOCUMENTS['bundle-pull'], pulled)).toBe(true);
    expect(pulled).toMatchObject({
      bundleId: bundle.bundleId,
      digest: pushed.digest,
      verified: true,
      signedBy: [key.name],
      pulledBlobs: pulled.blobs,
    });
    expect(await verify()).toMatch(/signature by factory-2026 ok, (\d+) of \1 blobs read and right/);
    for (const name of ['bundle.dsse.json', 'index.json', 'oci-layout']) {
      expect(readFileSync(join(out, 'pulled', name))).toEqual(readFileSync(join(bundle.path, name)));
    }
    expect(readdirSync(join(out, 'pulled/blobs/sha256')).sort()).toEqual(
      readdirSync(join(bundle.path, 'blobs/sha256')).sort(),
    );
  });

  it('costs only the layers of a rebuilt image, on the way there and back (F8, C3)', async () => {
    const reference = `${front.host}/bundles/rebuilt:4.13`;
    json(await push(bundle.path, reference));
    const web = ocpImages(['web'], { sizeBytes: 2 * MiB, below, tag: '1.0.1' })[0];
    if (web === undefined) expect.unreachable();
    const rebuilt = [{ ...web, reference: 'quay.example.com/ocp/web:1.0.0' }, ...images.slice(1), withIndex];
    const next = await makeSampleBundle({ dir: work, keys: [key], version: '4.13.8', sequence: 2, images: rebuilt });
    front.requests.splice(0);
    json(await push(next.path, reference));
    // Its layer, its config, contents.json, index.json and the envelope.
    expect(uploads()).toHaveLength(5);
    const [layer = 0, ...documents] = uploads()
      .map(({ receivedBytes }) => receivedBytes)
      .sort((a, b) => b - a);
    expect(layer).toBe(web.image.layers[1]?.sizeBytes);
    expect(Math.max(...documents)).toBeLessThan(10_000);
    const pulled = json(await pull(reference, '--keys', keys, '--reuse', bundle.path));
    expect(pulled).toMatchObject({ bundleId: next.bundleId });
    expect(downloads().filter(({ sentBytes }) => sentBytes > 10_000)).toMatchObject([{ sentBytes: layer }]);
    expect(await verify()).toContain('ocp 4.13.8');
  });

  it('transfers no blob but the envelope when metadata alone changes (F7)', async () => {
    const reference = `${front.host}/bundles/metadata:4.13`;
    json(await push(bundle.path, reference));
    const more = {
      dir: mkdtempSync(join(work, 'metadata-')),
      keys: [key],
      version: '4.13.9',
      sequence: 3,
      images: [...images, withIndex],
      advisories: [{ version: '4.13.7', deadend: true, reason: 'it loses data' }] as const,
    };
    const without = await makeSampleBundle({ ...more, version: '4.13.8', sequence: 2, advisories: [] });
    json(await push(without.path, reference));
    const next = await makeSampleBundle(more);
    front.requests.splice(0);
    expect(json(await push(next.path, reference))).toMatchObject({ sentBlobs: 1 });
    expect(uploads()[0]?.receivedBytes).toBe(readFileSync(join(next.path, 'bundle.dsse.json')).length);
    const pulled = json(await pull(reference, '--keys', keys, '--reuse', without.path));
    expect(pulled).toMatchObject({ bundleId: next.bundleId, pulledBlobs: 0, pulledBytes: 0 });
    expect(downloads()).toHaveLength(1);
  });

  it('of a delta needs its base there, and comes back as a delta', async () => {
    const next = ocpImages(['web', 'db', 'api'], { sizeBytes: MiB, below });
    const delta = await makeSampleBundle({
      dir: mkdtempSync(join(work, 'delta-')),
      keys: [key],
      base: bundle.path,
      version: '4.14.0',
      sequence: 9,
      images: next,
    });
    const reference = `${front.host}/bundles/delta:4.14`;
    expect((await push(delta.path, reference)).stderr).toContain(
      'push the base of a delta to the same repository first',
    );
    json(await push(bundle.path, reference));
    json(await push(delta.path, reference));
    json(await pull(reference, '--keys', keys));
    const { stdout } = await runCommand([
      'bundle',
      'verify',
      join(out, 'pulled'),
      '--keys',
      keys,
      '--base',
      bundle.path,
      '--full',
    ]);
    expect(stdout).toContain('left to base ocp@4.13.7');
  });

  it('comes from a tar and from a stick', async () => {
    const stick = mkdtempSync(join(work, 'stick-'));
    const on = await makeSampleBundle({ dir: join(stick, 'stickpin'), keys: [key], images });
    const reference = `${front.host}/bundles/forms:1`;
    const first = json(await push(stick, reference));
    expect(first).toMatchObject({ bundleId: on.bundleId });
    const tar = join(work, 'forms.stickpin.tar');
    execFileSync('tar', ['-cf', tar, '-C', on.path, 'bundle.dsse.json', 'oci-layout', 'index.json', 'blobs']);
    expect(json(await push(tar, reference))).toEqual({ ...first, sentBlobs: 0, sentBytes: 0 });
  });

  describe('in trouble', () => {
    let reference: string;
    const layer = images[0]?.image.layers[1];
    const isLayer = ({ method, path }: { method: string; path: string }) =>
      method === 'GET' && path.endsWith(layer?.digest ?? '');
    const ofLayer = () => front.requests.filter(isLayer);
    beforeAll(async () => {
      reference = `${front.host}/bundles/trouble:4.13`;
      json(await push(bundle.path, reference));
    });

    it('goes on within a blob after a break', async () => {
      let cuts = 1;
      front.meddle = (request) => (isLayer(request) && cuts-- > 0 ? { cutAt: MiB } : undefined);
      json(await pull(reference, '--keys', keys));
      const [first, second] = ofLayer();
      const from = Number(/^bytes=(\d+)-$/.exec(second?.range ?? '')?.[1]);
      expect(from).toBeGreaterThan(0);
      expect(second).toMatchObject({ status: 206, sentBytes: (layer?.sizeBytes ?? 0) - from });
      expect(first?.sentBytes).toBe(MiB);
      expect(await verify()).toContain('read and right');
    });

    it('goes on within a blob when the command is run again, and not before', async () => {
      front.meddle = (request) => (isLayer(request) ? { cutAt: MiB } : undefined);
      const broken = await pull(reference, '--keys', keys, '--retry', '0');
      expect(broken.exitCode).toBe(1);
      expect(JSON.parse(broken.stdout)).toMatchObject({ error: { code: 'bundle/registry', exitCode: 1 } });
      expect(broken.stderr).toContain(`${reference}: `);
      expect(existsSync(join(out, 'pulled'))).toBe(false);
      front.meddle = () => undefined;
      front.requests.splice(0);
      const pulled = json(await pull(reference, '--keys', keys));
      expect(ofLayer()).toMatchObject([{ range: expect.stringMatching(/^bytes=[1-9]/), status: 206 }]);
      expect(pulled.pulledBytes).toBeLessThan(bundle.payload.totals.sizeBytes);
      expect(await verify()).toContain('read and right');
      expect(readdirSync(out)).toEqual(['pulled']);
    });

    it('waits as long as Retry-After says', async () => {
      let refusals = 1;
      const times: number[] = [];
      front.meddle = ({ path }, response) => {
        if (!path.endsWith('/manifests/4.13')) return undefined;
        times.push(performance.now());
        if (refusals-- <= 0) return undefined;
        response.writeHead(429, { 'retry-after': '2' }).end();
        return 'answered';
      };
      json(await pull(reference, '--keys', keys));
      const [first = 0, second = 0] = times;
      expect(second - first).toBeGreaterThan(1_950);
    });

    it.each([
      [429, /it answers 429/],
      [403, /it answers 403: name an authfile/],
      [404, /it has no tag 4.13/],
    ])('ends with a reason after status %s', async (status, why) => {
      front.meddle = (_, response) => {
        response.writeHead(status).end();
        return 'answered';
      };
      const { exitCode, stderr } = await pull(reference, '--keys', keys, '--retry', '0');
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(why);
      expect(readdirSync(out)).toEqual([]);
    });

    it('takes no other bytes than those of the digest', async () => {
      front.meddle = (request, response) => {
        if (!isLayer(request)) return undefined;
        response.end(Buffer.alloc(layer?.sizeBytes ?? 0));
        return 'answered';
      };
      const { exitCode, stderr } = await pull(reference, '--keys', keys);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`it sends other bytes for ${layer?.digest}`);
      front.meddle = () => undefined;
      json(await pull(reference, '--keys', keys));
      expect(await verify()).toContain('read and right');
    });

    it.runIf(have('root'))('names the folder that is asked for when there is no room', async () => {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', out]);
      try {
        const { exitCode, stderr } = await pull(reference, '--keys', keys);
        expect(exitCode).toBe(1);
        expect(stderr).toContain(`not enough space in ${out}: the bundle needs `);
      } finally {
        execFileSync('umount', [out]);
      }
    });

    it('reads no index of more than 4 MiB', async () => {
      front.meddle = (_, response) => {
        response.end(Buffer.alloc(5 * MiB, 32));
        return 'answered';
      };
      const { stderr } = await pull(reference, '--keys', keys);
      expect(stderr).toContain('its answer has more than 4194304 bytes');
    });

    it('is not made from a plain image: the message says what to do with one', async () => {
      const config = {
        mediaType: 'application/vnd.oci.image.config.v1+json',
        digest: `sha256:${'a'.repeat(64)}`,
        size: 2,
      };
      const mediaType = 'application/vnd.oci.image.manifest.v1+json';
      front.meddle = (_, response) => {
        response.end(JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [] }));
        return 'answered';
      };
      const { stderr } = await pull(reference, '--keys', keys);
      expect(stderr).toContain("put the image into a bundle with 'stickpin bundle create'");
    });

    it('is refused before a layer is pulled when nobody trusted signed it, unless --unverified', async () => {
      const others = mkdtempSync(join(work, 'keys-'));
      installKeys(others, [sampleKey('other')]);
      front.requests.splice(0);
      const { exitCode, stderr } = await pull(reference, '--keys', others);
      expect(exitCode).toBe(4);
      expect(stderr).toContain(reference);
      expect(downloads()).toHaveLength(1);
      expect(readdirSync(out)).toEqual([]);
      expect(json(await pull(reference, '--unverified'))).toMatchObject({ verified: false, signedBy: [] });
    });

    it('sends again what a break stopped, and nothing else', async () => {
      const to = `${front.host}/bundles/again:1`;
      let breaks = 1;
      front.meddle = ({ method, path }, response) => {
        if (method !== 'PUT' || !path.includes(encodeURIComponent(layer?.digest ?? '')) || breaks-- <= 0)
          return undefined;
        response.destroy();
        return 'answered';
      };
      json(await push(bundle.path, to));
      const sent = uploads().filter(({ path }) => path.includes(encodeURIComponent(layer?.digest ?? '')));
      expect(sent).toMatchObject([{ status: 0 }, { status: 201 }]);
      front.requests.splice(0);
      expect(json(await push(bundle.path, to))).toMatchObject({ sentBlobs: 0, sentBytes: 0 });
      expect(uploads()).toEqual([]);
    });
  });

  it('is not pushed with a damaged or missing blob, and the tag stays', async () => {
    const damaged = await makeSampleBundle({ dir: mkdtempSync(join(work, 'damaged-')), keys: [key], images });
    const digest = images[0]?.image.layers[1]?.digest ?? '';
    const file = join(damaged.path, 'blobs/sha256', digest.slice('sha256:'.length));
    const bytes = readFileSync(file);
    writeFileSync(file, Buffer.alloc(bytes.length));
    const reference = `${front.host}/bundles/damaged:1`;
    const { exitCode, stderr } = await push(damaged.path, reference, '--retry', '0');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`${damaged.path}: blob ${digest} is damaged`);
    rmSync(file);
    expect((await push(damaged.path, reference)).stderr).toMatch(/1 of \d+ blobs are neither in it nor in/);
    expect((await pull(reference, '--keys', keys)).stderr).toContain('it has no tag 1');
  });

  it.each([
    ['registry.example.com/x', 'must end with a tag'],
    ['nothing:1', 'it must begin with a registry'],
  ])('is not pushed to %s', async (reference, why) => {
    const { exitCode, stderr } = await push(bundle.path, reference);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(why);
  });

  describe('where the registry wants to know who asks', () => {
    const login = (host: string) => {
      const authfile = join(out, 'auth.json');
      writeFileSync(authfile, JSON.stringify({ auths: { [host]: { auth: btoa('ann:secret') } } }));
      return ['--authfile', authfile, '--retry', '0'];
    };

    it('takes a password over its own TLS, and shows it nowhere', async () => {
      const own = await startDockerRegistry({ folder: mkdtempSync(join(work, 'own-')), tls, auth: 'password' });
      try {
        const reference = `${own.host}/bundles/ocp:1`;
        expect((await push(bundle.path, reference, ...login(own.host))).stderr).toMatch(/self.signed certificate/);
        trustCertificateOf(own.host);
        const refused = await push(bundle.path, reference, '--retry', '0');
        expect(refused.stderr).toContain('it answers 401: name an authfile with credentials that may do this');
        const pushed = await push(bundle.path, reference, ...login(own.host));
        json(pushed);
        json(await pull(reference, '--keys', keys, ...login(own.host)));
        expect(await verify()).toContain('read and right');
        expect(`${refused.stderr}${pushed.stderr}${pushed.stdout}`).not.toMatch(/secret|YW5uOnNlY3JldA/);
      } finally {
        await own.close();
      }
    });

    it('takes a token for what it does, which is gone from what it says', async () => {
      const tokens = await startTokens(tls);
      const realm = `https://${tokens.host}/token`;
      const own = await startDockerRegistry({
        folder: mkdtempSync(join(work, 'own-')),
        tls,
        auth: { realm, certificate: tls.certificate },
      });
      try {
        for (const { host } of [own, tokens]) trustCertificateOf(host);
        const reference = `${own.host}/bundles/ocp:1`;
        const pushed = json(await push(bundle.path, reference, ...login(own.host)));
        expect(pushed.sentBlobs).toBe(pushed.blobs);
        json(await pull(reference, '--keys', keys, ...login(own.host)));
        expect(await verify()).toContain('read and right');
        expect([...new Set(tokens.asked)]).toEqual(
          ['pull,push', 'pull'].map((actions) => `repository:bundles/ocp:${actions} Basic ${btoa('ann:secret')}`),
        );
      } finally {
        await own.close();
        await tokens.close();
      }
    });

    it('sends no login to where blobs are stored, and goes nowhere without TLS', async () => {
      const reference = `${front.host}/bundles/elsewhere:1`;
      json(await push(bundle.path, reference));
      const storage = await startFront(registry.host, tls.pem);
      const plain = await startFront(registry.host);
      trustCertificateOf(storage.host);
      try {
        const leadTo = (base: string) => {
          front.meddle = ({ path, hasLogin }, response) => {
            if (hasLogin === false) response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
            else if (path.includes('/blobs/'))
              response.writeHead(307, { location: `${base}${path}?sign=hidden` }).end();
            else return undefined;
            return 'answered';
          };
        };
        leadTo(`http://${plain.host}`);
        const { stderr } = await pull(reference, '--keys', keys, ...login(front.host));
        expect(stderr).toContain(`it leads on to ${plain.host}, without TLS`);
        expect(stderr).not.toContain('hidden');
        expect(plain.requests).toEqual([]);
        leadTo(`https://${storage.host}`);
        json(await pull(reference, '--keys', keys, ...login(front.host)));
        expect(storage.requests.length).toBeGreaterThan(0);
        expect(storage.requests.filter(({ hasLogin }) => hasLogin)).toEqual([]);
      } finally {
        await storage.close();
        await plain.close();
      }
    });

    it('sends no blob to another host', async () => {
      const other = await startFront(registry.host);
      front.meddle = ({ method, path }, response) => {
        if (method !== 'POST') return undefined;
        response.writeHead(202, { location: `https://localhost:${other.host.split(':')[1]}${path}` }).end();
        return 'answered';
      };
      const { stderr } = await push(bundle.path, `${front.host}/bundles/lost:1`);
      expect(stderr).toContain('it wants blobs at another host, localhost');
      expect(other.requests).toEqual([]);
      await other.close();
    });

    it('sends no login without TLS', async () => {
      const plain = await startFront(registry.host);
      plain.meddle = (_, response) => {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
        return 'answered';
      };
      const reference = `${plain.host}/bundles/plain:1`;
      const refused = await push(bundle.path, reference, '--tls-verify=false', ...login(plain.host));
      expect(refused.stderr).toContain('it answers 401');
      expect(plain.requests.some(({ hasLogin }) => hasLogin)).toBe(false);
      plain.meddle = () => undefined;
      json(await push(bundle.path, reference, '--tls-verify=false'));
      json(await pull(reference, '--tls-verify=false', '--keys', keys));
      const advice = /: 127\.0\.0\.1:\d+ has no TLS: if it is meant to be so, give --tls-verify=false\n$/;
      expect(await pull(reference, '--keys', keys)).toMatchObject({
        exitCode: 1,
        stderr: expect.stringMatching(advice),
      });
      expect((await push(bundle.path, reference)).stderr).toMatch(advice);
      await plain.close();
    });

    it.each(['http://', ''])('goes through the proxy of the environment, named with "%s"', async (scheme) => {
      const proxy = await startProxy();
      process.env.HTTPS_PROXY = `${scheme}bob:hush@${proxy.host}`;
      try {
        const reference = `${front.host}/bundles/proxied:1`;
        json(await push(bundle.path, reference));
        expect(new Set(proxy.asked)).toEqual(new Set([front.host]));
        proxy.refuses = true;
        const { stderr } = await pull(reference, '--keys', keys, '--retry', '0');
        expect(stderr).toContain(reference);
        expect(stderr).not.toContain('hush');
      } finally {
        delete process.env.HTTPS_PROXY;
        proxy.close();
      }
    });
  });
});

/** Gives whoever asks what they ask for, as the token protocol of registries has it. */
async function startTokens(tls: { readonly key: string; readonly certificate: string }) {
  const [key, cert] = [readFileSync(tls.key, 'utf8'), readFileSync(tls.certificate, 'utf8')];
  const asked: string[] = [];
  const chain = [new X509Certificate(cert).raw.toString('base64')];
  const server = createServer({ key, cert }, (request, response) => {
    const query = new URL(request.url ?? '', 'https://x').searchParams;
    const scope = query.get('scope') ?? '';
    asked.push(`${scope} ${request.headers.authorization}`);
    const [type, name, actions = ''] = scope.split(':');
    const now = Math.floor(Date.now() / 1_000);
    const claims = {
      ...{ iss: 'test', sub: 'ann', aud: query.get('service'), jti: `${asked.length}` },
      ...{ iat: now, nbf: now - 60, exp: now + 300 },
      access: [{ type, name, actions: actions.split(',') }],
    };
    const parts = [{ typ: 'JWT', alg: 'RS256', x5c: chain }, claims];
    const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    response.end(JSON.stringify({ token: `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}` }));
  });
  return { asked, ...(await listening(server)) };
}

/** CONNECT only (RFC 9110, section 9.3.6). */
async function startProxy() {
  const asked: string[] = [];
  const server = createPlainServer().on('connect', (request, socket) => {
    asked.push(request.url ?? '');
    if (proxy.refuses) return void socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    const [host = '', port] = (request.url ?? '').split(':');
    const there = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      there.pipe(socket).pipe(there);
    });
    for (const end of [there, socket]) end.on('error', () => end.destroy());
  });
  const proxy = { asked, refuses: false, ...(await listening(server)) };
  return proxy;
}

async function listening(server: Server) {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => server.close().closeAllConnections();
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
