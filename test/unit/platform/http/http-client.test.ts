import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { HttpClient, type HttpRequest, wholeBody } from '../../../../src/platform/http-client.ts';

describe('HttpClient', () => {
  const sockets = new Set<Socket>();
  let server: Server;
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  async function ask(signal: AbortSignal, onRequest: (socket: Socket) => void, more: Partial<HttpRequest> = {}) {
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('data', () => onRequest(socket));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return new HttpClient().open({ url, ...more }, signal);
  }
  const never = new AbortController().signal;

  it('gives the answer', async () => {
    const answer = await ask(never, (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'));
    expect(answer.statusCode).toBe(204);
  });

  it.each([
    ['switches to another protocol', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
    ['speaks something else', 'SSH-2.0-x\r\n'],
  ])('fails when the server %s', async (_what, text) => {
    await expect(ask(never, (socket) => socket.write(text))).rejects.toThrow();
  });

  it('fails when the server closes the connection', async () => {
    await expect(ask(never, (socket) => socket.end())).rejects.toThrow();
  });

  it('settles when it is aborted, also before the server says anything', async () => {
    const stop = new AbortController();
    const answer = ask(stop.signal, () => stop.abort(new Error('over')));
    await expect(answer).rejects.toThrow('over');
  });

  it('fails when the head of the answer is late, and when nothing comes', async () => {
    await expect(ask(never, () => undefined, { answerMs: 10 })).rejects.toThrow('no answer within 0.01 s');
    server.close();
    await expect(ask(never, () => undefined, { idleMs: 10 })).rejects.toThrow('nothing came for 0.01 s');
  });

  it('reads no more of a body than it may have', async () => {
    const answer = await ask(never, (socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n12345'));
    await expect(wholeBody(answer, 4)).rejects.toThrow('its answer has more than 4 bytes');
  });
});
