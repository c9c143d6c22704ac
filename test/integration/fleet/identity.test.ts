import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { IdentityKeeper } from '../../../src/fleet/identity/identity.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { createAuthority, type TestAuthority, type TestCertificate } from '../../support/fleet/authority.ts';
import { type KubeletFiles, layKubeletFiles } from '../../support/fleet/kubelet-files.ts';
import { type CalledNode, call, identityOf, startCalledNode } from '../../support/fleet/tls-pair.ts';
import { have } from '../../support/requirements.ts';

const signal = new AbortController().signal;

describe.runIf(have('openssl'))('the identity of a node', () => {
  const base = folderForAll();
  let cluster: TestAuthority;
  let foreign: TestAuthority;
  let files: KubeletFiles;
  let called: CalledNode;

  beforeAll(async () => {
    cluster = createAuthority(join(base, 'ca'), 'kubernetes');
    foreign = createAuthority(join(base, 'ca'), 'kubernetes');
    files = layKubeletFiles(join(base, 'worker-1'), cluster.node('worker-1'), cluster);
    called = await startCalledNode(files.root);
  });
  afterAll(async () => {
    await called?.close();
  });

  /** What a stranger with this certificate gets to read before the connection ends. */
  async function strange(certificate: TestCertificate | undefined, options: ConnectionOptions = {}): Promise<string> {
    const pair = certificate && { cert: certificate.certificate, key: certificate.key };
    const socket = connect({ host: '127.0.0.1', port: called.port, rejectUnauthorized: false, ...pair, ...options });
    const seen: Buffer[] = [];
    socket.on('data', (chunk) => {
      seen.push(chunk);
      socket.end();
    });
    socket.on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\n\r\n');
    await new Promise((resolve) => socket.once('close', resolve));
    return Buffer.concat(seen).toString();
  }

  /** Calls the node, until it has greeted. */
  async function greeted(caller: IdentityKeeper): Promise<void> {
    const { socket } = await call(called.port, caller);
    await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    socket.destroy();
  }

  const strangers: readonly [what: string, cause: string, make: () => TestCertificate | undefined][] = [
    ['a node of a foreign authority of the same name', 'foreign', () => foreign.node('worker-2')],
    ['a certificate that it signed itself', 'foreign', () => createAuthoritySelf()],
    ['a node whose certificate ended', 'expired', () => cluster.node('worker-2', { fromHours: -48, toHours: -1 })],
    [
      'a node whose certificate begins tomorrow',
      'not-yet-valid',
      () => cluster.node('worker-2', { fromHours: 24, toHours: 48 }),
    ],
    [
      'an administrator of the same cluster',
      'wrong-subject',
      () => cluster.sign({ subject: '/O=system:masters/CN=kubernetes-admin' }),
    ],
    [
      'a user with the name of a node',
      'wrong-subject',
      () => cluster.sign({ subject: '/O=system:masters/CN=system:node:worker-2' }),
    ],
    ['a user of the group of nodes', 'wrong-subject', () => cluster.sign({ subject: '/O=system:nodes/CN=worker-2' })],
    [
      'a node of two groups',
      'wrong-subject',
      () => cluster.sign({ subject: '/O=system:nodes/O=system:masters/CN=system:node:worker-2' }),
    ],
    [
      'a name with a line end',
      'wrong-subject',
      () => cluster.sign({ subject: '/CN=x\nO=system:nodes\nCN=system:node:worker-2' }),
    ],
    [
      'a name that no Node can have',
      'wrong-subject',
      () => cluster.sign({ subject: '/O=system:nodes/CN=system:node:Worker_2' }),
    ],
    ["a kubelet's serving certificate", 'wrong-use', () => cluster.node('worker-2', { use: 'serverAuth' })],
    ['nobody', 'no-certificate', () => undefined],
  ];

  /** The certificate of an authority that nobody trusts, with the subject of a node. */
  function createAuthoritySelf(): TestCertificate {
    return createAuthority(join(base, 'ca'), 'self').sign({ subject: '/O=system:nodes/CN=system:node:worker-2' });
  }

  it.each(strangers)('refuses %s before it reads a byte', async (_what, cause, make) => {
    const before = called.refused.length;
    expect(await strange(make())).toBe('');
    await eventually(() => expect(called.refused.length).toBe(before + 1));
    expect(called.refused.at(-1)?.cause).toBe(cause);
    expect(called.received).toEqual([]);
    expect(called.known).toEqual([]);
  });

  it('refuses TLS 1.2', async () => {
    const before = called.refused.length;
    expect(await strange(cluster.node('worker-2'), { maxVersion: 'TLSv1.2' })).toBe('');
    await eventually(() => expect(called.refused.length).toBe(before + 1));
    expect(called.refused.at(-1)?.cause).toBe('handshake');
    expect(called.received).toEqual([]);
  });

  it('does not let a session be resumed', async () => {
    const certificate = cluster.node('worker-3');
    let session: Buffer | undefined;
    const socket = connect({
      host: '127.0.0.1',
      port: called.port,
      rejectUnauthorized: false,
      cert: certificate.certificate,
      key: certificate.key,
    });
    socket.on('session', (ticket) => {
      session = ticket;
    });
    await once(socket, 'data');
    socket.destroy();
    // Without the certificate: only the session says who it was.
    const before = called.known.length;
    expect(await strange(undefined, session === undefined ? {} : { session })).toBe('');
    expect(called.known.length).toBe(before);
  });

  it.each(strangers.filter(([, cause]) => cause !== 'no-certificate'))(
    'calls no end that proves to be %s',
    async (_what, _cause, make) => {
      const files = layKubeletFiles(join(base, 'caller'), cluster.node('worker-2'), cluster);
      const caller = await identityOf(files.root);
      const certificate = make();
      const { createServer } = await import('node:tls');
      const received: Buffer[] = [];
      const server = createServer({ cert: certificate?.certificate, key: certificate?.key }, (socket) => {
        socket.on('error', () => undefined);
        socket.on('data', (chunk: Buffer) => received.push(chunk));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      await expect(call(port, caller)).rejects.toThrow(
        /^127\.0\.0\.1:\d+ (was signed by|has a certificate|is no node)/,
      );
      expect(received).toEqual([]);
      server.close();
    },
  );

  it('knows a node at both ends, and one of another name is refused', async () => {
    const caller = await identityOf(layKubeletFiles(join(base, 'caller-2'), cluster.node('worker-2'), cluster).root);
    const { socket, node } = await call(called.port, caller, 'worker-1');
    expect(node).toBe('worker-1');
    expect(String((await once(socket, 'data'))[0])).toBe('hello');
    socket.destroy();
    expect(called.known.at(-1)).toBe('worker-2');
    await expect(call(called.port, caller, 'worker-7')).rejects.toThrow(
      /is worker-1 by its certificate, and should be worker-7/,
    );
    const several = await call(called.port, caller, 'worker-7', 'worker-1');
    expect(several.node).toBe('worker-1');
    several.socket.destroy();
    await expect(call(called.port, caller, 'worker-7', 'worker-8')).rejects.toThrow(/should be worker-7 or worker-8/);
  });

  it('refuses a node that was removed, by its name or its certificate, at both ends', async () => {
    const caller = await identityOf(layKubeletFiles(join(base, 'caller-9'), cluster.node('worker-9'), cluster).root);
    const { socket, certificate } = await call(called.port, caller);
    socket.destroy();
    for (const exclude of ['worker-1', certificate]) {
      const keeper = { current: () => ({ ...caller.current(), exclude: [exclude] }) } as unknown as typeof caller;
      await expect(call(called.port, keeper)).rejects.toThrow(`is worker-1, and fleet.exclude has ${exclude}`);
    }
    const own = called.keeper.current();
    const known = [...called.known];
    const [keeper, before] = [called.keeper, called.keeper.current];
    keeper.current = () => own && { ...own, exclude: ['worker-9'] };
    const refused = await call(called.port, caller);
    await eventually(() => expect(called.refused.at(-1)).toMatchObject({ cause: 'removed' }));
    refused.socket.destroy();
    keeper.current = before;
    expect(called.known).toEqual(known);
  });

  it('believes an intermediate authority whose certificate was sent along, at both ends', async () => {
    const below = cluster.intermediate('kubelet-signer');
    const caller = await identityOf(layKubeletFiles(join(base, 'caller-3'), below.node('worker-4'), cluster).root);
    await greeted(caller);
    expect(called.known.at(-1)).toBe('worker-4');
    files.rotate(below.node('worker-1'));
    await called.keeper.refresh(signal);
    expect((await call(called.port, caller)).node).toBe('worker-1');
  });

  it('follows a new certificate and new authorities without a restart', async () => {
    const next = createAuthority(join(base, 'ca'), 'kubernetes-2027');
    const callerFiles = layKubeletFiles(join(base, 'caller-4'), cluster.node('worker-2'), cluster, next);
    const caller = await identityOf(callerFiles.root);
    files.rotate(next.node('worker-1'));
    files.trust(cluster, next);
    await called.keeper.refresh(signal);
    expect((await call(called.port, caller)).node).toBe('worker-1');
    callerFiles.rotate(next.node('worker-2'));
    await caller.refresh(signal);
    files.trust(next);
    await called.keeper.refresh(signal);
    await greeted(caller);
    expect(called.known.at(-1)).toBe('worker-2');
    const old = called.refused.length;
    expect(await strange(cluster.node('worker-2'))).toBe('');
    await eventually(() => expect(called.refused.slice(old).map(({ cause }) => cause)).toEqual(['foreign']));
  });

  it('tells authorities of the same name in one bundle apart by their keys, as kubeadm renews its own', async () => {
    const next = createAuthority(join(base, 'ca-2'), 'kubernetes');
    files.rotate(cluster.node('worker-1'));
    for (const bundle of [
      [cluster, next],
      [next, cluster],
    ]) {
      files.trust(...bundle);
      await called.keeper.refresh(signal);
      for (const [at, signer] of [cluster, next].entries()) {
        const folder = join(base, `caller-same-${at}`);
        const caller = await identityOf(layKubeletFiles(folder, signer.node('worker-6'), ...bundle).root);
        await greeted(caller);
        expect(called.known.at(-1)).toBe('worker-6');
        expect((await call(called.port, caller, 'worker-1')).node).toBe('worker-1');
      }
    }
    files.trust(next);
    await called.keeper.refresh(signal);
    const before = called.refused.length;
    expect(await strange(cluster.node('worker-6'))).toBe('');
    await eventually(() => expect(called.refused.slice(before).map(({ cause }) => cause)).toEqual(['foreign']));
    files.trust(cluster);
    await called.keeper.refresh(signal);
  });

  it('keeps what it had while the files are half written, and says so once', async () => {
    const own = layKubeletFiles(join(base, 'worker-5'), cluster.node('worker-5'), cluster);
    const { keeper, log } = await (async () => {
      const node = await startCalledNode(own.root);
      await node.close();
      return node;
    })();
    const before = keeper.current();
    writeFileSync(own.clientCa, '-----BEGIN CERT');
    await keeper.refresh(signal);
    await keeper.refresh(signal);
    expect(keeper.current()).toBe(before);
    const warnings = log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
    expect(warnings).toEqual([
      "The kubelet's certificate can't be used: /etc/kubernetes/pki/ca.crt has no certificate in PEM; set fleet.client_ca; the certificate from before stays in use",
    ]);
  });
});
