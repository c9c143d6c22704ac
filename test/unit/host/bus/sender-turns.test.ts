import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MessageBus } from '../../../../src/host/bus/message-bus.ts';
import { SenderTurns } from '../../../../src/host/bus/sender-turns.ts';
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

  it('of one sender are bounded: 16 are in work, and others follow when they are answered', async () => {
    socket.write(Buffer.concat(Array.from({ length: 100 }, (_, at) => callOf(':1.1', at + 1))));
    // The calls above 16 are refused; how many of them wait at once depends on how they arrive.
    await eventually(() => expect(countOf(':1.1')).toBeGreaterThanOrEqual(16));
    expect(open).toHaveLength(16);
    for (const { resolve } of open) resolve();
    await eventually(() => expect(countOf(':1.1')).toBeGreaterThanOrEqual(32));
    socket.write(callOf(':1.1', 101));
    await eventually(() => expect(open).toHaveLength(17));
  });
});

describe('the turns of senders', () => {
  it('take 32 calls of one sender, those of each in order, and none once they are cleared', async () => {
    const turns = new SenderTurns();
    const served: string[] = [];
    const add = (sender: string, at: number) => turns.add(sender, () => served.push(`${sender} ${at}`));
    const taken = Array.from({ length: 40 }, (_, at) => add('a', at));
    expect(taken.filter((isTaken) => isTaken)).toHaveLength(32);
    expect(add('b', 0)).toBe(true);
    await eventually(() => expect(served).toHaveLength(33));
    expect(served.slice(0, 3)).toEqual(['a 0', 'b 0', 'a 1']);
    add('a', 99);
    turns.clear();
    await new Promise((resolve) => setImmediate(resolve));
    expect(served).toHaveLength(33);
  });
});
