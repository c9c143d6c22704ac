import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectApi } from '../../../src/api/client.ts';
import { MANAGER, OBJECT_PATH, SERVICE } from '../../../src/api/contract.ts';
import { busCall, connectMessageBus } from '../../../src/host/bus/message-bus.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';
import { startFlood } from '../../support/bus/flood.ts';
import { callAs } from '../../support/bus/polkit.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { callFields, rawMessage, stringBody } from '../../support/bus/raw-bus-client.ts';
import { type SystemdDouble, startSystemdDouble } from '../../support/bus/systemd-double.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

const NOBODY = 65_534;
const NO_REPLY = 1;
const never = new AbortController().signal;

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
    const flooder = await startFlood(NOBODY, api.address, calls, [connections, times]);
    try {
      await during();
      expect(flooder.isRunning()).toBe(true);
    } finally {
      await flooder.stop();
    }
  }

  async function rootIsAnswered(): Promise<void> {
    for (let time = 0; time < 2; time += 1) {
      const client = await connectApi({ DBUS_SYSTEM_BUS_ADDRESS: api.address }, never, 60_000);
      try {
        expect((await client.report(never)).status).toBe('IDLE: No bundle yet.');
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
    ['of what it may not do', MANAGER, 'Approve', () => stringBody('ocp@1')],
  ] as const)('%s leave room for root', async (_what, iface, member, bodyOf) => {
    await flood(Buffer.concat([hello, ...calls(16, 0, iface, member, bodyOf)]), ['100', 'once'], rootIsAnswered);
  });
});

const UNIT = 'stickpin.service';
const SYSTEMD = 'org.freedesktop.systemd1';
const SYSTEMD_POLICY = `<busconfig><policy user="root">
  <allow own="${SYSTEMD}"/><allow send_destination="${SYSTEMD}"/>
</policy></busconfig>
`;

describe.runIf(have('root', 'dbus-daemon'))('a daemon whose D-Bus API is flooded', { timeout: 120_000 }, () => {
  const base = folderForAll();
  let bus: PrivateBus;
  let systemd: SystemdDouble;
  let child: ChildProcess;

  const writeSettings = (parallel: number) =>
    writeFileSync(
      join(base, 'stickpin.toml'),
      `[preload]\nparallel = ${parallel}\n[runtime]\nkind = "embedded"\n[registry]\nlisten = "127.0.0.1:0"\n` +
        `[trust]\nkeys_dir = "${base}/keys"\n[paths]\nstate_dir = "${base}/state"\nrun_dir = "${base}/run"\n`,
    );
  beforeAll(async () => {
    writeFileSync(join(base, 'systemd.conf'), SYSTEMD_POLICY);
    bus = await startPrivateBus(['systemd/io.stickpin1.conf', join(base, 'systemd.conf')]);
    systemd = await startSystemdDouble(bus.address);
    systemd.addUnit(UNIT, {});
    systemd.hooks = { unitOf: () => UNIT, restart: async () => 'done' };
    writeSettings(1);
    child = spawn(
      process.execPath,
      [await bundleIntoCache('src/main.ts', 'daemon-program'), '--config', join(base, 'stickpin.toml')],
      {
        env: { PATH: process.env.PATH, DBUS_SYSTEM_BUS_ADDRESS: bus.address, NOTIFY_SOCKET: join(base, 'nobody') },
        stdio: 'ignore',
      },
    );
  });
  afterAll(async () => {
    child.kill('SIGKILL');
    systemd.stop();
    await bus[Symbol.asyncDispose]();
  });

  it('gets answers of systemd, which come over a connection of their own', async () => {
    const client = await connectMessageBus(bus.address, never);
    const owner = async () => (await client.call(busCall('GetNameOwner', 's', [SERVICE]), never))[0];
    await eventually(async () => expect(await owner()).toMatch(/^:/), 30_000);
    const histories = calls(16, 0, MANAGER, 'GetHistory', (at) => stringBody(`ocp@${at}`));
    const flooder = await startFlood(NOBODY, bus.address, Buffer.concat([hello, ...histories]), ['100', 'always']);
    try {
      writeSettings(2);
      await eventually(() => expect(systemd.calls).toContain('RestartUnit'), 60_000);
      expect(systemd.senders.size).toBe(1);
      expect([...systemd.senders]).not.toContain(await owner());
      expect(flooder.isRunning()).toBe(true);
    } finally {
      await flooder.stop();
      client.close();
    }
  });
});
