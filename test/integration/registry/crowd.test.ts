import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { PeerUsers } from '../../../src/registry/peer-users.ts';
import { createRegistry, type Registry } from '../../../src/registry/server.ts';
import { readTable } from '../../../src/registry/tcp-table.ts';
import { eventually } from '../../support/eventually.ts';
import { createPublicNode, type PublicNode } from '../../support/public-node.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const NOBODY = 65_534;

let registry: Registry;
let port: number;
/** Tables that were read. */
let reads: number;
let children: ChildProcess[];
let node: PublicNode;

beforeEach(async () => {
  reads = 0;
  children = [];
  node = createPublicNode();
  const own = process.getuid?.() ?? 0;
  const peers = new PeerUsers({
    clock: systemClock,
    openDiag: async () => undefined,
    read: (table) => {
      reads += 1;
      return readTable(table);
    },
  });
  registry = createRegistry({
    source: {
      sizeOf: async () => undefined,
      onChange: () => () => undefined,
      read: async function* () {},
    },
    clock: systemClock,
    graceMs: 0,
    token: undefined,
    log: createRecordingLog(),
    admit: async (socket) => ((await peers.uidOf(socket)) === own ? `uid ${own}` : undefined),
  });
  const authority = await registry.listen({ host: '127.0.0.1', port: 0 });
  port = Number(authority.split(':').at(-1));
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await registry.close();
  node[Symbol.dispose]();
});

/** Status of a ping over a connection of its own. */
async function ping(): Promise<number> {
  const asked = get({ host: '127.0.0.1', port, path: '/v2/', agent: new Agent() });
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'close');
  return response.statusCode ?? 0;
}

function connected(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
}

/**
 * Lines of a program of other users: `open(bytes)` opens a connection and sends bytes, half a
 * request at most.
 */
const OPEN = `
  const { connect } = require('node:net');
  const open = (bytes) => connect(${'PORT'}, '127.0.0.1').on('error', () => {}).on('connect', function () { this.write(bytes); }).resume();
`;
const program = (lines: string) => OPEN.replace('PORT', String(port)) + lines;
const HALF = "'GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\nx-half: '";

describe('registry: many connections that are closed at once', () => {
  it('reads no table for connections that were reset before the scan', async () => {
    // Nothing runs here meanwhile, so that all of them are reset before the first is accepted.
    const script = program(`
      let left = 200;
      for (let count = 0; count < 200; count += 1) {
        const socket = open('GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n');
        socket.on('connect', () => setImmediate(() => socket.resetAndDestroy()));
        socket.on('close', () => { left -= 1; if (left === 0) process.stdout.write('done'); });
      }`);
    expect(String(spawnSync(process.execPath, ['-e', script]).stdout)).toBe('done');
    const before = connected();
    await eventually(() => expect(connected()).toBeLessThanOrEqual(before));
    expect(await ping()).toBe(200);
    expect(reads).toBe(2); // both tables, for the ping
  });
});

describe.runIf(have('root'))('registry: many connections of a user who is not admitted', () => {
  it('reads the socket table once for all of them, resets them, and admits root meanwhile', async () => {
    const count = 3_000;
    const script = program(`
      let left = ${count};
      for (let at = 0; at < ${count}; at += 1) open(${HALF}).on('close', () => {
        left -= 1;
        if (left === 0) process.stdout.write('all closed');
      });`);
    const crowd = spawn(node.path, ['-e', script], {
      uid: NOBODY,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(crowd);
    const closed = text(crowd.stdout);
    for (let asked = 0; asked < 10; asked += 1) expect(await ping()).toBe(200);
    expect(await closed).toBe('all closed');
    expect(reads).toBeLessThan(count / 10);
    await eventually(() => expect(connected()).toBe(0));
  });

  it('answers root while another user connects, asks and resets without end', async () => {
    const script = program(`
      const next = () => {
        const socket = open('GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n');
        socket.on('connect', () => socket.resetAndDestroy()).on('close', next);
      };
      for (let count = 0; count < 4; count += 1) next();
      process.stdout.write('begun');`);
    const loops = spawn(node.path, ['-e', script], {
      uid: NOBODY,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(loops);
    await once(loops.stdout, 'data');
    for (let asked = 0; asked < 50; asked += 1) expect(await ping()).toBe(200);
  });

  it('answers one of them with the reason', async () => {
    const script = program(`open('GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n').pipe(process.stdout);`);
    const { stdout } = spawn(node.path, ['-e', script], { uid: NOBODY, cwd: '/' });
    expect(await text(stdout)).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n[\s\S]*"DENIED"/);
  });
});

describe('registry: many connections of an admitted user', () => {
  let sockets: Socket[];
  beforeEach(() => {
    sockets = [];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });

  function half(): Socket {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET /v2/ HTTP/1.1\r\nhost: x\r\nx-half: ');
    sockets.push(socket);
    return socket;
  }

  it('are limited to 256; one more gets the reason', async () => {
    await eventually(async () => {
      // Those whose headers took too long are closed meanwhile; unread, a socket never says so.
      for (let open = sockets.filter(({ closed }) => !closed).length; open < 256; open += 1) half().resume();
      expect(await ping()).toBe(503);
    });
    for (const socket of sockets.filter(({ closed }) => !closed).slice(0, 10)) socket.destroy();
    await eventually(async () => expect(await ping()).toBe(200));
  });

  it('must send their headers within some seconds, and not too many of them', async () => {
    const slow = half();
    const large = half();
    large.write('x'.repeat(9_000));
    expect(await text(large)).toMatch(/^HTTP\/1\.1 431 /);
    expect(await text(slow)).toMatch(/^HTTP\/1\.1 408 /);
  });
});
