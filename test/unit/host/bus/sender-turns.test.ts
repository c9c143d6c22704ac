import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MessageBus } from '../../../../src/host/bus/message-bus.ts';
import { FIELD, rawMessage } from '../../../support/bus/raw-bus-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const dir = folderForEach();

const callOf = (sender: string, serial: number) =>
  rawMessage({
    type: 1,
    serial,
    fields: [
      [FIELD.path, 'o', '/io/stickpin1'],
      [FIELD.interface, 's', 'io.stickpin1.Manager'],
      [FIELD.member, 's', 'GetHistory'],
      [FIELD.sender, 's', sender],
    ],
  });

describe('calls of several senders on one connection', () => {
  let server: Server;
  let bus: MessageBus;
  let socket: Socket;
  /** What was answered, as bytes: each answer names its receiver once. */
  let answers: Buffer;
  /** Resolves the calls that were handed to the handler, by sender. */
  let open: { readonly sender: string; readonly resolve: () => void }[];

  beforeEach(async () => {
    [answers, open] = [Buffer.alloc(0), []];
    server = createServer();
    const path = join(dir, 'bus');
    server.listen(path);
    await once(server, 'listening');
    const connected = once(server, 'connection');
    bus = new MessageBus(`unix:path=${path}`);
    bus.serve(
      ({ sender }) =>
        new Promise((resolve) => {
          open.push({ sender, resolve: () => resolve({ signature: '', body: [] }) });
        }),
    );
    [socket] = (await connected) as [Socket];
    await once(socket, 'data');
    const begun = once(socket, 'data');
    socket.write('OK 0123456789abcdef0123456789abcdef\r\n');
    await begun;
    socket.on('data', (bytes: Buffer) => {
      answers = Buffer.concat([answers, bytes]);
    });
  });
  afterEach(() => {
    bus.close();
    socket.destroy();
    server.close();
  });

  const countOf = (sender: string, bytes = answers) => bytes.toString('latin1').split(`${sender}\0`).length - 1;

  it('are served in turns: 2,000 of one user delay the one of another by a few', async () => {
    const flooders = Array.from({ length: 8 }, (_, at) => `:1.${at + 1}`);
    const flood = Array.from({ length: 2_000 }, (_, at) => callOf(flooders[at % flooders.length] ?? '', at + 1));
    socket.write(Buffer.concat([...flood, callOf(':1.99', 5_000)]));
    await eventually(() => expect(open.map(({ sender }) => sender)).toContain(':1.99'));
    open.find(({ sender }) => sender === ':1.99')?.resolve();
    await eventually(() => expect(countOf(':1.99')).toBe(1));
    const before = answers.subarray(0, answers.indexOf(':1.99\0'));
    const answeredBefore = flooders.reduce((sum, sender) => sum + countOf(sender, before), 0);
    // In the order of arrival all were answered before but the 128 that wait for the handler.
    expect(answeredBefore).toBeLessThan(200);
  });

  it('of one sender are bounded: 16 are in work, and of more than 32 that wait the last get no answer', async () => {
    const own = Array.from({ length: 100 }, (_, at) => callOf(':1.1', at + 1));
    socket.write(Buffer.concat(own));
    await eventually(() => expect([open.length, countOf(':1.1')]).toEqual([16, 16]));
    for (const { resolve } of open) resolve();
    await eventually(() => expect(countOf(':1.1')).toBe(32));
    socket.write(callOf(':1.1', 101));
    await eventually(() => expect(open).toHaveLength(17));
  });
});
