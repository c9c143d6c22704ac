import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  BusErrorReply,
  busCall,
  connectMessageBus,
  type MessageBus,
  variant,
} from '../../../src/host/bus/message-bus.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { have } from '../../support/requirements.ts';

const NAME = 'io.stickpin.Test1';
const never = new AbortController().signal;

describe.runIf(have('dbus-daemon'))('message bus', () => {
  let daemon: PrivateBus;
  let server: MessageBus;
  let client: MessageBus;

  beforeAll(async () => {
    daemon = await startPrivateBus();
    server = await connectMessageBus(daemon.address, never);
    client = await connectMessageBus(daemon.address, never);
    await server.call(busCall('RequestName', 'su', [NAME, 0]), never);
  });

  afterAll(async () => {
    client.close();
    server.close();
    await daemon[Symbol.asyncDispose]();
  });

  const request = (member: string, signature = '', body: readonly unknown[] = []) => ({
    destination: NAME,
    path: '/',
    interface: NAME,
    member,
    signature,
    body,
  });

  it('carries structures and variants both ways', async () => {
    server.serve(async (call) => ({
      signature: 'sa(sv)',
      body: [call.member, call.body[0]],
    }));
    const [member, list] = await client.call(request('Echo', 'a(sv)', [[['flag', variant('b', true)]]]), never);
    expect(member).toBe('Echo');
    expect(list).toEqual([['flag', expect.objectContaining({ signature: 'b', value: true })]]);
  });

  it('hands over the name and text of an error', async () => {
    server.serve(async () => {
      throw new BusErrorReply('io.stickpin.Test1.Error.No', 'because');
    });
    const error = await client.call(request('Fail'), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      errorName: 'io.stickpin.Test1.Error.No',
      message: 'because',
    });
  });

  it('answers an error when the handler breaks its own signature', async () => {
    server.serve(async () => ({ signature: 's', body: [] }));
    await expect(client.call(request('Bad'), never)).rejects.toMatchObject({
      errorName: 'org.freedesktop.DBus.Error.Failed',
    });
  });

  it('answers UnknownMethod without a handler', async () => {
    server.serve(undefined);
    await expect(client.call(request('Any'), never)).rejects.toMatchObject({
      errorName: 'org.freedesktop.DBus.Error.UnknownMethod',
    });
  });

  it('stops waiting when the signal aborts', async () => {
    server.serve(() => new Promise(() => undefined));
    const stop = new AbortController();
    const waiting = client.call(request('Slow'), stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });

  it('delivers signals that match', async () => {
    await client.call(busCall('AddMatch', 's', [`type='signal',interface='${NAME}'`]), never);
    const { promise, resolve } = resolvers();
    const off = client.onSignal((signal) => {
      if (signal.interface === NAME) resolve([signal.member, signal.body]);
    });
    server.emit({
      path: '/',
      interface: NAME,
      member: 'Ping',
      signature: 'i',
      body: [7],
    });
    expect(await promise).toEqual(['Ping', [7]]);
    off();
  });

  it('fails every waiting call when the bus goes away', async () => {
    server.serve(() => new Promise(() => undefined));
    const other = await startPrivateBus();
    const lonely = await connectMessageBus(other.address, never);
    const held = await connectMessageBus(other.address, never);
    await held.call(busCall('RequestName', 'su', [NAME, 0]), never);
    held.serve(() => new Promise(() => undefined));
    const waiting = lonely.call(request('Slow'), never).catch((thrown: unknown) => thrown);
    await other[Symbol.asyncDispose]();
    expect(await waiting).toMatchObject({
      code: 'platform/bus-unreachable',
      disposition: 'retry',
    });
    await expect(lonely.call(request('Again'), never)).rejects.toMatchObject({
      code: 'platform/bus-unreachable',
    });
  });

  it('says which address is not reachable', async () => {
    await expect(connectMessageBus('unix:path=/nonexistent/bus', never)).rejects.toMatchObject({
      code: 'platform/bus-unreachable',
      message:
        'The D-Bus message bus at unix:path=/nonexistent/bus is not reachable: there is no such socket. Is dbus.service running?',
    });
  });
});

function resolvers(): {
  promise: Promise<unknown>;
  resolve: (value: unknown) => void;
} {
  let resolve: (value: unknown) => void = () => undefined;
  const promise = new Promise<unknown>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
