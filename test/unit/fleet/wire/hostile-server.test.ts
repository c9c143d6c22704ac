import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OffersClient } from '../../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../../src/fleet/wire/connection.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const never = new AbortController().signal;
const digest = digestOf('a blob');

const folder = folderForEach();
let server: Server;
let answer: (socket: Socket) => void;
const open: WireConnection[] = [];
/** Gives up a server that is silent within a third of a second. */
let client: OffersClient;
/** Waits for one that is slow, as on a busy machine. */
let patient: OffersClient;

function clientOf(waits: { answerMs?: number; stallMs?: number; progressMs?: number }): OffersClient {
  const connection = new WireConnection({ who: 'worker-2', connect: unixSocket(join(folder, 's')), ...waits });
  open.push(connection);
  return new OffersClient(connection);
}

beforeEach(async () => {
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => answer(socket));
  });
  server.listen(join(folder, 's'));
  await once(server, 'listening');
  client = clientOf({ answerMs: 300, stallMs: 300, progressMs: 500 });
  patient = clientOf({});
});

afterEach(async () => {
  for (const connection of open.splice(0)) connection.close();
  server.close();
});

async function drain(chunks: AsyncIterable<Buffer>): Promise<number> {
  let length = 0;
  for await (const chunk of chunks) length += chunk.length;
  return length;
}

/** Writes a text again and again, until the other end closes. */
function endlessly(socket: Socket, text: string): void {
  while (!socket.destroyed && socket.write(text));
  if (!socket.destroyed) socket.once('drain', () => endlessly(socket, text));
}

describe('a client of the wire form, beside a server that is not', () => {
  it('does not wait for a server that says nothing', async () => {
    answer = () => undefined;
    await expect(client.offers({}, never)).rejects.toMatchObject({
      code: 'offers/unreachable',
      message: 'worker-2 does not answer: no answer within 0.3 s',
    });
  });

  it('does not read endless headers', async () => {
    answer = (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      endlessly(socket, `x-${'y'.repeat(1_000)}: z\r\n`);
    };
    await expect(patient.offers({}, never)).rejects.toMatchObject({ code: 'offers/answer' });
  });

  it('does not read endless answers in advance', async () => {
    answer = (socket) => endlessly(socket, 'HTTP/1.1 102 Processing\r\n\r\n');
    await expect(client.offers({}, never)).rejects.toMatchObject({ code: 'offers/unreachable' });
  });

  it.each([
    ['of 10 GiB', `HTTP/1.1 200 OK\r\ncontent-length: ${10 * 2 ** 30}\r\n\r\n`],
    ['without end', 'HTTP/1.1 200 OK\r\n\r\n'],
  ])('does not read a contents.json %s', async (_what, head) => {
    answer = (socket) => {
      socket.write(head);
      endlessly(socket, ' '.repeat(65_536));
    };
    await expect(patient.file(digest, 'contents.json', never)).rejects.toMatchObject({
      code: 'offers/answer',
      message: 'worker-2 sends contents.json with more than 16777216 bytes, which is not read',
    });
  });

  const offer = (over: object) => ({ bundleId: digest, name: 'a', version: '1', sequence: 7, isWhole: true, ...over });
  it.each([
    'no json',
    '{"version":2,"bundles":[]}',
    '{"version":1,"bundles":[{}]}',
    '[]',
    JSON.stringify({ version: 1, bundles: [offer({ revision: '1', bundleId: 'sha256:1' })] }),
    JSON.stringify({ version: 1, bundles: [offer({ revision: '1', sequence: -1 })] }),
    JSON.stringify({ version: 1, bundles: Array.from({ length: 1_001 }, () => offer({ revision: '1' })) }),
  ])('does not use %.60s as offers', async (body) => {
    answer = (socket) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await expect(patient.offers({}, never)).rejects.toMatchObject({ code: 'offers/answer', disposition: 'reject' });
  });

  it('gives up a blob that stalls, and one that breaks off', async () => {
    answer = (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc');
    await expect(drain(client.read(digest, 0, never))).rejects.toMatchObject({
      code: 'offers/unreachable',
      message: 'worker-2 does not answer: it sent nothing for 0.3 s in the middle of an answer',
    });
    answer = (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc');
    await expect(drain(client.read(digest, 0, never))).rejects.toMatchObject({ code: 'offers/unreachable' });
  });

  it('gives up a blob that trickles, and not one whose reader pauses', async () => {
    const impatient = clientOf({ progressMs: 500 });
    answer = (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
      const trickle = setInterval(() => socket.write('x'), 50);
      socket.once('close', () => clearInterval(trickle));
    };
    await expect(drain(impatient.read(digest, 0, never))).rejects.toMatchObject({
      code: 'offers/unreachable',
      message: expect.stringMatching(/^worker-2 does not answer: it sent only \d+ bytes in \d+ s$/),
    });
    const blob = Buffer.alloc(1_000);
    answer = (socket) =>
      socket.write(Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n'), blob]));
    let last: Socket | undefined;
    server.once('connection', (socket) => {
      last = socket;
    });
    let length = 0;
    for await (const chunk of impatient.read(digest, 0, never)) {
      length += chunk.length;
      await systemClock.sleep(600, never);
      if (length === 1_000) last?.write('y');
    }
    expect(length).toBe(1_001);
  });

  it('takes no other bytes than those it asked for', async () => {
    answer = (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc');
    await expect(drain(patient.read(digest, 1, never))).rejects.toMatchObject({ code: 'offers/answer' });
    answer = (socket) =>
      socket.end('HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-2/3\r\ncontent-length: 3\r\n\r\nabc');
    await expect(drain(patient.read(digest, 1, never))).rejects.toMatchObject({ code: 'offers/answer' });
  });

  it('takes a redirect, an unknown status and bare text for no answer', async () => {
    answer = (socket) => socket.end('HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n');
    await expect(patient.blobs(digest, never)).rejects.toMatchObject({ code: 'offers/unreachable' });
    answer = (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n');
    await expect(patient.blobs(digest, never)).rejects.toMatchObject({ code: 'offers/answer' });
  });

  it('tells that nobody listens', async () => {
    const nowhere = new OffersClient(new WireConnection({ who: 'w', connect: unixSocket(join(folder, 'none')) }));
    await expect(nowhere.offers({}, never)).rejects.toMatchObject({ code: 'offers/unreachable', disposition: 'retry' });
  });
});
