import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseReference } from '../../../src/domain/model/reference.ts';
import { RegistryReferrers } from '../../../src/factory/images/registry-referrers.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

const LOGIN = `Basic ${btoa('ann:secret')}`;
const { signal } = new AbortController();
const work = folderForAll();
const tls = { key: '', cert: '' };

interface Host {
  readonly address: string;
  /** Paths, each with its Authorization header. */
  readonly asked: string[];
}
type Answer = (path: string, response: ServerResponse, request: IncomingMessage) => void;

const servers: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function start(answer: Answer, isPlain = false): Promise<Host> {
  const asked: string[] = [];
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    asked.push(`${request.url} ${request.headers.authorization ?? ''}`.trim());
    answer(request.url ?? '', response, request);
  };
  const server = isPlain ? createServer(onRequest) : createTlsServer(tls, onRequest);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const subject = digestOf(Buffer.from('image'));
const PATH = `/v2/edge/app/referrers/${subject}`;
const referral = (name: string) => ({
  mediaType: 'm',
  digest: digestOf(Buffer.from(name)),
  size: 1,
  artifactType: name,
});
const send = (response: ServerResponse, names: readonly string[], headers = {}) =>
  response.writeHead(200, headers).end(JSON.stringify({ manifests: names.map(referral) }));
const nothing: Answer = (_, response) => send(response, []);

/** Names of what is listed, or the note that says why nothing is. */
async function listed(registry: string, repository = 'edge/app', referrers = new RegistryReferrers(access(registry))) {
  const found = await referrers.list(parseReference(`${registry}/${repository}:1`), subject, signal);
  return found?.map(({ artifactType }) => artifactType) ?? [...referrers.notes.values()];
}
function access(registry: string) {
  const authfile = join(work, 'auth.json');
  writeFileSync(authfile, JSON.stringify({ auths: { [registry]: { auth: btoa('ann:secret') } } }));
  return { authfile, tlsVerify: false };
}

describe.runIf(have('openssl'))('the list of referrers of a registry', () => {
  beforeAll(() => {
    const [key, cert] = [join(work, 'tls.key'), join(work, 'tls.crt')];
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'];
    execFileSync('openssl', [...made, '-keyout', key, '-out', cert], { stdio: 'pipe' });
    Object.assign(tls, { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') });
  });

  it('goes on over several pages, at the same host', async () => {
    const { address, asked } = await start((path, response, { headers }) => {
      if (path === PATH) send(response, ['a'], { link: `<${PATH}?last=a>; rel="next"` });
      else if (path.endsWith('a')) send(response, ['b'], { link: `<http://${headers.host}${PATH}?last=b>;rel=next` });
      else if (path.endsWith('b'))
        send(response, ['c'], { link: '<?last=c>; title="x"; rel="next", </>; rel="first"' });
      else send(response, ['d'], { link: `<${PATH}>; rel="prev"` });
    });
    expect(await listed(address)).toEqual(['a', 'b', 'c', 'd']);
    expect(asked).toEqual([PATH, `${PATH}?last=a`, `${PATH}?last=b`, `${PATH}?last=c`]);
  });

  it.each([
    ['another host', (other: string) => ({ link: `<https://${other}${PATH}>; rel="next"` }), /goes on at another host/],
    ['a login in an address', () => ({ link: '<https://u:p@127.0.0.1/>; rel="next"' }), /goes on at another host/],
    ['no address', () => ({ link: '<https://[>; rel="next"' }), /goes on at a malformed address/],
  ])('does not go on at %s', async (_, headersOf, why) => {
    const other = await start(nothing);
    const named = other.address.replace('127.0.0.1', 'localhost');
    const { address } = await start((_path, response) => send(response, ['a'], headersOf(named)));
    expect(await listed(address)).toEqual([expect.stringMatching(why)]);
    expect(other.asked).toEqual([]);
  });

  it('that has no end is given up', async () => {
    const { address, asked } = await start((path, response) => send(response, [], { link: `<${path}>; rel="next"` }));
    expect(await listed(address)).toEqual([expect.stringContaining('more than 32 pages')]);
    expect(asked).toHaveLength(32);
  });

  it('that is too large is given up', async () => {
    const { address } = await start((_, response) => response.end(Buffer.alloc(5 * 1024 * 1024, 32)));
    expect(await listed(address)).toEqual([expect.stringContaining('more than 4194304 bytes')]);
  });

  it('is not taken from where a redirect leads, and no login goes there', async () => {
    const other = await start(nothing);
    const { address } = await start((path, response, { headers }) =>
      headers.authorization === undefined
        ? response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
        : response.writeHead(307, { location: `https://${other.address}${path}` }).end(),
    );
    expect(await listed(address)).toEqual([expect.stringContaining('it answers 307')]);
    expect(other.asked).toEqual([]);
  });

  it('that needs a token sends the login to its realm, and the token to the registry', async () => {
    const realm = await start((_, response) => response.end('{"token":"t"}'));
    const { address, asked } = await start((_, response, { headers }) => {
      const challenge = `Bearer realm="https://${realm.address}/token",service="s"`;
      if (headers.authorization === 'Bearer t') send(response, ['a']);
      else response.writeHead(401, { 'www-authenticate': challenge }).end();
    });
    expect(await listed(address)).toEqual(['a']);
    expect(realm.asked).toEqual([`/token?service=s&scope=repository%3Aedge%2Fapp%3Apull ${LOGIN}`]);
    expect(asked).toEqual([PATH, `${PATH} Bearer t`]);
  });

  it.each(['Basic', 'Bearer'])('sends no login without TLS, whatever %s realm is named', async (scheme) => {
    const realm = await start(nothing);
    const plain = await start(
      (_, response) =>
        response.writeHead(401, { 'www-authenticate': `${scheme} realm="https://${realm.address}/token"` }).end(),
      true,
    );
    expect(await listed(plain.address)).toEqual([expect.stringContaining('it answers 401')]);
    expect(plain.asked).toEqual([PATH]);
    expect(realm.asked).toEqual([]);
  });

  it('sends no login to a realm without TLS', async () => {
    const realm = await start(nothing, true);
    const { address } = await start((_, response) =>
      response.writeHead(401, { 'www-authenticate': `Bearer realm="http://${realm.address}/token"` }).end(),
    );
    expect(await listed(address)).toEqual([expect.stringContaining('without TLS')]);
    expect(realm.asked).toEqual([]);
  });

  it('that is malformed counts for its repository only, and odd entries are left out', async () => {
    const odd = { ...referral('odd'), digest: `sha512:${'0'.repeat(128)}` };
    const { address } = await start((path, response) =>
      path.includes('/bad/')
        ? response.end('[]')
        : response.end(JSON.stringify({ manifests: [odd, referral('a'), 1] })),
    );
    const referrers = new RegistryReferrers(access(address));
    expect(await listed(address, 'edge/bad', referrers)).toEqual([expect.stringContaining(`${address}/edge/bad`)]);
    expect(await listed(address, 'edge/app', referrers)).toEqual(['a']);
  });
});
