import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { PeerUsers } from '../../../src/registry/peer-users.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';

const NOBODY = 65_534;
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server whose connections are answered one by one. */
async function listen(host: string) {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, host);
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const accepted = async (): Promise<Socket> => {
    const [socket] = await once(server, 'connection');
    closing.push(() => socket.destroy());
    return socket;
  };
  return { port, accepted };
}
/** A process of this user that has a connection open until it is ended. */
function connectAs(uid: number, host: string, port: number): void {
  const script = `require('net').connect(${port}, '${host}').on('error', () => {}); setInterval(() => {}, 1e6)`;
  const child = spawn(process.execPath, ['-e', script], { uid, gid: uid, cwd: '/', stdio: 'ignore' });
  closing.push(() => child.kill('SIGKILL'));
}
/** Answers from the kernel's tables don't count here. */
const noTables = async () => '';

describe.runIf(have('root'))('the user at the other end of a connection, by a request to the kernel', () => {
  const peers = () => new PeerUsers({ clock: systemClock, read: noTables });

  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['::1', '::1'],
  ])('is known on %s for a client of %s', async (own, other) => {
    const { port, accepted } = await listen(own);
    for (const uid of [NOBODY, 0]) {
      connectAs(uid, other, port);
      expect(await peers().uidOf(await accepted())).toBe(uid);
    }
  });

  it('is that of a client which has closed its sending half, and nobody after it has ended', async () => {
    const { port, accepted } = await listen('127.0.0.1');
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const socket = await accepted();
    const scan = peers();
    client.end();
    expect(await scan.uidOf(socket)).toBe(0);
    const closed = once(client, 'close');
    client.destroy();
    await closed;
    expect(await scan.uidOf(socket)).toBeUndefined();
  });

  it('is nobody, not that of a server which listens on the port of a client that has gone', async () => {
    const { port, accepted } = await listen('127.0.0.1');
    const scan = peers();
    connectAs(0, '127.0.0.1', port);
    await scan.uidOf(await accepted());
    // Another process may have a connection from the same port to elsewhere.
    const socket = await eventually(async () => {
      const client = connect(port, '127.0.0.1');
      const left = await accepted();
      const clientPort = left.remotePort ?? 0;
      client.resetAndDestroy();
      await once(client, 'close');
      const other = createServer().listen(clientPort, '127.0.0.1');
      await once(other, 'listening');
      closing.push(() => other.close());
      return left;
    });
    expect(await scan.uidOf(socket)).toBeUndefined();
  });
});
