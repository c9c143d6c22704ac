import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectApi } from '../../../src/api/client.ts';
import { MANAGER, OBJECT_PATH, SERVICE } from '../../../src/api/contract.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';
import { callAs } from '../../support/bus/polkit.ts';
import { callFields, rawMessage, stringBody } from '../../support/bus/raw-bus-client.ts';
import { have } from '../../support/requirements.ts';

const NOBODY = 65_534;
const NO_REPLY = 1;
const never = new AbortController().signal;

/**
 * Sends what it reads from stdin on as many connections as it is told, once or without an end, and
 * says when it has begun.
 */
const FLOODER = `
const [path, connections, times] = process.argv.slice(1);
const chunks = [];
process.stdin.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
  const calls = Buffer.concat(chunks);
  for (let at = 0; at < Number(connections); at += 1) {
    const socket = require('node:net').connect(path);
    socket.write('\\0AUTH EXTERNAL ' + Buffer.from(String(process.getuid())).toString('hex') + '\\r\\n');
    socket.once('data', () => {
      socket.write('BEGIN\\r\\n');
      socket.on('data', () => undefined);
      const send = () => socket.write(calls, () => times === 'once' || setTimeout(send, 50));
      send();
      console.log('sent');
    });
  }
});
`;

/** The longest history that is shown. */
const EVENTS = Array.from({ length: 1_000 }, (_, at) => ({
  at,
  kind: 'imagePulled',
  message: `quay.example.com/ocp/image-${at}@sha256:${'ab'.repeat(32)} was pulled`,
  medium: 'sdb1',
  by: 'daemon',
}));
const REJECTED = Array.from({ length: 1_000 }, (_, at) => ({
  medium: 'sdb1',
  path: `stickpin/bundle-${at}`,
  reason: { code: 'bundle/signature', message: `no signature by a trusted key ${'x'.repeat(200)}` },
}));

const needs = ['root', 'dbus-daemon', 'busctl'] as const;

describe.runIf(have(...needs))('D-Bus calls of one user without an end', { timeout: 300_000 }, () => {
  let api: ApiOnBus;
  let served: number;
  beforeAll(async () => {
    const getHistory = async () => {
      served += 1;
      return EVENTS;
    };
    api = await startApiOnBus({ getHistory }, () => idleReport({ rejected: REJECTED }), ['systemd/io.stickpin1.conf']);
  });
  afterAll(() => api[Symbol.asyncDispose]());

  async function flood(
    calls: Buffer,
    [connections, times]: readonly [string, string],
    during: () => Promise<void>,
  ): Promise<void> {
    served = 0;
    const identity = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
    const socket = api.address.replace('unix:path=', '');
    const child = spawn('setpriv', [...identity, process.execPath, '-e', FLOODER, socket, connections, times], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      child.stdin.end(calls);
      await once(child.stdout, 'data');
      await during();
      expect(child.exitCode).toBeNull();
    } finally {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
  }

  const hello = rawMessage({
    type: 1,
    serial: 1,
    fields: callFields('/org/freedesktop/DBus', 'org.freedesktop.DBus', 'Hello', 'org.freedesktop.DBus'),
    flags: NO_REPLY,
  });
  const calls = (count: number, flags: number, iface: string, member: string, bodyOf?: (at: number) => Buffer) =>
    Array.from({ length: count }, (_, at) => {
      const fields = callFields(OBJECT_PATH, iface, member, SERVICE, bodyOf && 's');
      return rawMessage({ type: 1, serial: at + 2, fields, flags, ...(bodyOf && { body: bodyOf(at) }) });
    });

  async function rootIsAnswered(): Promise<void> {
    for (let time = 0; time < 2; time += 1) {
      const client = await connectApi({ DBUS_SYSTEM_BUS_ADDRESS: api.address }, never, 60_000);
      try {
        expect((await client.report(never)).status).toBe('Idle.');
      } finally {
        client.close();
      }
      expect((await callAs(0, api.address, [SERVICE, OBJECT_PATH, MANAGER, 'GetHistory', 's', ''])).exitCode).toBe(0);
    }
  }

  it('that want no answer cost next to nothing, and root is answered', async () => {
    await flood(
      Buffer.concat([hello, ...calls(100, NO_REPLY, MANAGER, 'GetHistory', () => stringBody(''))]),
      ['1', 'always'],
      rootIsAnswered,
    );
    // Those of root alone.
    expect(served).toBeLessThanOrEqual(2);
  });

  it.each([
    ['with an answer of another history each', MANAGER, 'GetHistory', (at: number) => stringBody(`ocp@${at}`)],
    ['with all properties', 'org.freedesktop.DBus.Properties', 'GetAll', () => stringBody(MANAGER)],
    ['with all objects', 'org.freedesktop.DBus.ObjectManager', 'GetManagedObjects', undefined],
    ['of what it may not do', MANAGER, 'Reject', () => stringBody('ocp@1')],
  ] as const)('%s leave room for root', async (_what, iface, member, bodyOf) => {
    await flood(Buffer.concat([hello, ...calls(16, 0, iface, member, bodyOf)]), ['100', 'once'], rootIsAnswered);
  });
});
