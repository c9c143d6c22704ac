import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ApiClient, connectApi } from '../../../src/api/client.ts';
import { ApiService } from '../../../src/api/service.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import {
  type BusSignal,
  busCall,
  connectMessageBus,
  type MessageBus,
  variant,
} from '../../../src/host/bus/message-bus.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { VERSION } from '../../../src/platform/version.ts';
import { REPORT_CALLS, reportOfBusctl } from '../../support/bus/busctl-report.ts';
import { fakeBackend, idleReport, sampleReport } from '../../support/bus/fake-backend.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { eventually } from '../../support/eventually.ts';
import { coded } from '../../support/matching.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const never = new AbortController().signal;
const IFACE = 'io.stickpin1.Manager';
const BUNDLE = 'io.stickpin1.Bundle';
const PROPERTIES = 'org.freedesktop.DBus.Properties';

/** The paths of the objects of its bundles. */
function paths({ bundles }: StatusReport): string[] {
  return bundles.map(({ bundleId }) => `/io/stickpin1/bundle/${bundleId.slice('sha256:'.length)}`);
}

describe.runIf(have('dbus-daemon', 'busctl'))('D-Bus service', () => {
  let daemon: PrivateBus;
  let bus: SystemBus;
  let service: ApiService;
  let client: ApiClient;
  let report: StatusReport;
  let done: string[];
  let refusal: unknown;
  const log = createRecordingLog();

  const backend = fakeBackend(
    {
      getHistory: async ({ bundle }) => [{ at: 1, kind: 'bundleReady', message: `${bundle} is ready` }],
      activate: async ({ bundle, options: { override } }) => {
        if (refusal !== undefined) throw refusal;
        done.push(`activate ${bundle}${override ? ' all the same' : ''}`);
      },
      rollback: async ({ stream }) => {
        if (refusal !== undefined) throw refusal;
        done.push(`rollback ${stream}`);
        return 'ocp@4.13.6';
      },
      unpin: async ({ bundle, options }) => {
        if (refusal !== undefined) throw refusal;
        done.push(`unpin ${bundle} ${JSON.stringify(options)}`);
        return `${bundle} is no longer pinned`;
      },
      unpinUnclaimed: async ({ options: { force } }) => {
        done.push(`unpin unclaimed ${force}`);
        return '2 unclaimed pins were given up by hand';
      },
      cancel: async () => {
        done.push('cancel');
      },
      restoreKey: async ({ keyId }, { uid }) => `${keyId} for ${uid}`,
      approve: async ({ bundle }) => {
        done.push(`approve ${bundle}`);
        return `${bundle} is approved.`;
      },
      reject: async ({ bundle }) => {
        done.push(`reject ${bundle}`);
        return `${bundle} is rejected.`;
      },
      rescan: async () => {
        done.push('rescan');
      },
      load: async ({ path }) => {
        if (refusal !== undefined) throw refusal;
        done.push(`load ${path}`);
        return 'sdb1';
      },
    },
    () => report,
  );
  const change = (next: Partial<StatusReport>): void => {
    report = { ...report, ...next };
    backend.publish(report);
  };

  beforeAll(async () => {
    daemon = await startPrivateBus();
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    done = [];
    refusal = undefined;
    report = idleReport({ status: 'Idle. Waiting for media.' });
    bus = new SystemBus({ clock: systemClock, log, address: daemon.address });
    service = new ApiService(bus, bus, backend, systemClock, log);
    await bus.start(never);
    client = await connectApi({ DBUS_SYSTEM_BUS_ADDRESS: daemon.address }, never);
    await eventually(() => client.report(never));
  });
  afterEach(async () => {
    client.close();
    await service.dispose();
    bus.close();
  });

  const raw = async (work: (peer: MessageBus) => Promise<void>): Promise<void> => {
    const peer = await connectMessageBus(daemon.address, never);
    try {
      await work(peer);
    } finally {
      peer.close();
    }
  };
  const to = (iface: string, member: string, signature = '', body: readonly unknown[] = []) => ({
    destination: 'io.stickpin1',
    path: '/io/stickpin1',
    interface: iface,
    member,
    signature,
    body,
  });

  it('gives the whole report, as it was made', async () => {
    report = sampleReport();
    const read = await client.report(never);
    expect(read).toEqual(report);
    expect(JSON.stringify(read)).toBe(JSON.stringify(report));
  });

  it('loads a path and says what it is called, or why not', async () => {
    expect(await client.load({ path: '/mnt/share' }, never)).toBe('sdb1');
    expect(done).toEqual(['load /mnt/share']);
    refusal = new AppError({ code: 'media/load', message: '/mnt/share is a link', disposition: 'reject' });
    await expect(client.load({ path: '/mnt/share' }, never)).rejects.toMatchObject({
      code: 'media/load',
      message: '/mnt/share is a link',
    });
  });

  it('answers the history', async () => {
    const line = { at: 1, kind: 'bundleReady', message: 'ocp@4.13.7 is ready' };
    expect(await client.getHistory({ bundle: 'ocp@4.13.7' }, never)).toEqual([line]);
  });

  it('approves and rejects, and states the effect', async () => {
    done = [];
    expect(await client.approve({ bundle: 'ocp@4.13.7' }, never)).toBe('ocp@4.13.7 is approved.');
    expect(await client.reject({ bundle: 'ocp@4.13.7', options: {} }, never)).toBe('ocp@4.13.7 is rejected.');
    expect(done).toEqual(['approve ocp@4.13.7', 'reject ocp@4.13.7']);
  });

  it('refuses an option that a method does not have, by name', async () => {
    await raw(async (peer) => {
      const body = ['x', { force: variant('b', true) }];
      await expect(peer.call(to(IFACE, 'Activate', 'sa{sv}', body), never)).rejects.toThrow(
        /there is no option force here, only override/,
      );
    });
    expect(done).toEqual([]);
  });

  it('restores a key for the user whom the bus names', async () => {
    expect(await client.restoreKey({ keyId: 'ab' }, never)).toBe(`ab for ${process.getuid?.()}`);
  });

  it('rolls back and unpins, and reports refusals', async () => {
    expect(await client.rollback({ stream: 'ocp' }, never)).toBe('ocp@4.13.6');
    const given = client.unpin({ bundle: 'ocp@4.13.5', options: { removeImages: true, force: false } }, never);
    expect(await given).toBe('ocp@4.13.5 is no longer pinned');
    expect(done).toEqual(['rollback ocp', 'unpin ocp@4.13.5 {"removeImages":true,"force":false}']);
    refusal = new AppError({ code: 'engine/running', message: 'it may run', disposition: 'reject' });
    await expect(client.unpin({ bundle: 'ocp@4.13.6', options: {} }, never)).rejects.toMatchObject({
      code: 'engine/running',
      message: 'it may run',
    });
  });

  it('activates, cancels and rescans', async () => {
    await client.activate({ bundle: 'ocp@4.13.7', options: {} }, never);
    await client.activate({ bundle: 'ocp@4.13.7', options: { override: true } }, never);
    await client.cancel({}, never);
    await client.rescan({}, never);
    expect(done).toEqual(['activate ocp@4.13.7', 'activate ocp@4.13.7 all the same', 'cancel', 'rescan']);
  });

  it('carries the code and the message of an error to the client', async () => {
    refusal = new AppError({
      code: 'engine/no-such-bundle',
      message: 'There is no bundle ocp@9',
      disposition: 'reject',
    });
    await expect(client.activate({ bundle: 'ocp@9', options: {} }, never)).rejects.toMatchObject({
      code: 'engine/no-such-bundle',
      message: 'There is no bundle ocp@9',
    });
    await raw(async (peer) => {
      const error = await peer
        .call(to(IFACE, 'Activate', 'sa{sv}', ['x', {}]), never)
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ errorName: 'io.stickpin1.Error.Engine.NoSuchBundle' });
    });
  });

  it('gives properties with the types of the interface', async () => {
    const transfer = { doneBytes: 2 ** 40, totalBytes: 3 * 2 ** 40, bytesPerSecond: 7 };
    report = { ...report, operation: 'preloading', status: '37/112 images', progress: transfer };
    await raw(async (peer) => {
      const [all] = await peer.call(to(PROPERTIES, 'GetAll', 's', [IFACE]), never);
      expect(all).toMatchObject({
        Status: { signature: 's', value: '37/112 images' },
        Operation: { signature: 's', value: 'preloading' },
        Progress: { signature: '(isi)', value: [33, '37/112 images', 0] },
        LastError: { signature: 's', value: '' },
        Version: { signature: 's', value: VERSION },
        Transfer: { signature: 'a{sv}', value: { totalBytes: { signature: 't', value: 3n * 2n ** 40n } } },
        Bundles: { signature: 'ao', value: [] },
      });
      const [one] = await peer.call(to(PROPERTIES, 'Get', 'ss', [IFACE, 'Operation']), never);
      expect(one).toMatchObject({ signature: 's', value: 'preloading' });
      await expect(peer.call(to(PROPERTIES, 'Get', 'ss', [IFACE, 'Nothing']), never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownProperty',
      });
      await expect(peer.call(to(PROPERTIES, 'Get', 'ss', ['io.else', 'Status']), never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownProperty',
      });
      const set = to(PROPERTIES, 'Set', 'ssv', [IFACE, 'Status', variant('s', 'x')]);
      await expect(peer.call(set, never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.PropertyReadOnly',
      });
    });
  });

  it('has an object for each bundle, with the properties that the bundle has', async () => {
    report = sampleReport();
    const [path = ''] = paths(report);
    await raw(async (peer) => {
      const [objects] = await peer.call(to('org.freedesktop.DBus.ObjectManager', 'GetManagedObjects'), never);
      expect(Object.keys(objects as object)).toEqual(paths(report));
      const [all] = await peer.call({ ...to(PROPERTIES, 'GetAll', 's', [BUNDLE]), path }, never);
      expect((objects as Record<string, object>)[path]).toEqual({ [BUNDLE]: all });
      expect(all).toMatchObject({
        Name: { signature: 's', value: 'ocp' },
        Phase: { signature: 's', value: 'ready' },
        Images: { signature: 'a{sv}', value: { present: { signature: 'u', value: 2 } } },
        Reason: { signature: 'a{sv}', value: { code: { value: 'rule/from' } } },
        SizeBytes: { signature: 't', value: 2n ** 33n },
      });
      expect(all).not.toHaveProperty('Hold');
      await expect(peer.call({ ...to(PROPERTIES, 'Get', 'ss', [BUNDLE, 'Hold']), path }, never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownProperty',
        message: 'Hold has no value now',
      });
      const elsewhere = { ...to(PROPERTIES, 'GetAll', 's', [BUNDLE]), path: '/io/stickpin1/bundle/00' };
      await expect(peer.call(elsewhere, never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownObject',
      });
    });
  });

  it('answers that the daemon is starting while there is no report', async () => {
    const starting = new ApiService(
      bus,
      bus,
      fakeBackend({}, () => undefined),
      systemClock,
      log,
    );
    await raw(async (peer) => {
      const [status] = await peer.call(to(PROPERTIES, 'Get', 'ss', [IFACE, 'Status']), never);
      expect(status).toMatchObject({ value: 'WAIT: stickpin is starting.' });
    });
    await expect(client.report(never)).rejects.toMatchObject({
      code: 'api/starting',
      disposition: 'retry',
      message: 'The daemon is still starting; try again in a moment',
    });
    await starting.dispose();
  });

  const listening = (work: (heard: readonly BusSignal[]) => Promise<void>): Promise<void> =>
    raw(async (peer) => {
      const heard: BusSignal[] = [];
      peer.onSignal((signal) => {
        if (signal.path.startsWith('/io/stickpin1')) heard.push(signal);
      });
      await peer.call(busCall('AddMatch', 's', ["type='signal',sender='io.stickpin1'"]), never);
      await work(heard);
    });

  it('sends one signal for many changes, and none when nothing changed', async () => {
    await listening(async (heard) => {
      change({});
      change({ status: 'one' });
      change({ status: 'two', rejected: sampleReport().rejected });
      await eventually(() => expect(heard).toHaveLength(1));
      expect(heard[0]?.member).toBe('PropertiesChanged');
      const [iface, changed, invalidated] = heard[0]?.body ?? [];
      expect(iface).toBe(IFACE);
      expect(changed).toMatchObject({ Status: { value: 'two' }, LastError: { value: 'signed by nobody' } });
      expect(Object.keys(changed as object)).toEqual(['Status', 'Progress', 'LastError']);
      expect(invalidated).toEqual(['Rejected']);
    });
  });

  it('sends signals for bundles that appear, change and disappear, and for the end of an operation', async () => {
    const { bundles } = sampleReport();
    await listening(async (heard) => {
      const members = () => heard.map(({ member }) => member);
      change({ bundles, operation: 'preloading' });
      await eventually(() => expect(members()).toEqual(['InterfacesAdded', 'InterfacesAdded', 'PropertiesChanged']));
      expect(heard[0]?.body[1]).toMatchObject({ [BUNDLE]: { Name: { value: 'ocp' } } });
      change({ bundles: bundles.map(({ reason: _, ...bundle }) => bundle).slice(0, 1), operation: 'idle' });
      await eventually(() => expect(members().slice(3)).toHaveLength(4));
      expect(members().slice(3)).toEqual(['PropertiesChanged', 'InterfacesRemoved', 'PropertiesChanged', 'Completed']);
      expect(heard[3]).toMatchObject({ path: paths(sampleReport())[0], body: [BUNDLE, {}, ['Reason']] });
      expect(heard.at(-1)).toMatchObject({ path: '/io/stickpin1', interface: IFACE, body: [0] });
    });
  });

  it('lets a client watch', async () => {
    let seen = 0;
    await client.watch(() => {
      seen += 1;
    }, never);
    change({ status: 'new' });
    await eventually(() => expect(seen).toBe(1));
  });

  it('shows all properties to busctl', async () => {
    report = sampleReport();
    const busctl = (...args: readonly string[]) =>
      promisify(execFile)('busctl', [`--address=${daemon.address}`, ...args]).then(({ stdout }) => stdout);
    const manager = await busctl('introspect', 'io.stickpin1', '/io/stickpin1');
    for (const name of ['Activate', 'GetHistory', 'UnpinUnclaimed']) {
      expect(manager).toMatch(new RegExp(`^\\.${name} +method`, 'm'));
    }
    expect(manager).toMatch(/^\.Progress +property +\(isi\) /m);
    expect(await busctl('get-property', 'io.stickpin1', '/io/stickpin1', IFACE, 'Progress')).toBe(
      '(isi) 100 "IDLE: No bundle yet." 0\n',
    );
    expect(manager).toMatch(/^\.Runtime +property +a\{sv\} +2 "reachable" b true "name" s "cri-o 1\.31\.0" /m);
    expect(manager).toMatch(/^\.Completed +signal +i /m);
    expect(manager).toMatch(/^\.GetManagedObjects +method/m);
    const [path = ''] = paths(report);
    const bundle = await busctl('introspect', 'io.stickpin1', path);
    expect(bundle).toMatch(/^\.Images +property +a\{sv\} +3 "total" u 2 "present" u 2 "pinned" u 2 /m);
    expect(bundle).toMatch(/^\.Hold +property +s +- /m);
    const printed = await Promise.all(REPORT_CALLS.map((args) => busctl(...args)));
    expect(reportOfBusctl(printed[0] ?? '', printed[1] ?? '')).toEqual(report);
    const tree = await busctl('tree', '--list', 'io.stickpin1');
    expect(tree.trim().split('\n')).toEqual(
      expect.arrayContaining(['/io/stickpin1', '/io/stickpin1/bundle', ...paths(report)]),
    );
  });

  it('can be introspected by tools', async () => {
    await raw(async (peer) => {
      const introspect = to('org.freedesktop.DBus.Introspectable', 'Introspect');
      expect(String(await peer.call(introspect, never))).toContain('<method name="Activate">');
      expect(await peer.call({ ...introspect, path: '/' }, never)).toEqual(['<node><node name="io"/></node>']);
      expect(await peer.call({ ...introspect, path: '/io' }, never)).toEqual(['<node><node name="stickpin1"/></node>']);
      await expect(peer.call({ ...introspect, path: '/other' }, never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownMethod',
      });
      await expect(peer.call(to(IFACE, 'Nothing'), never)).rejects.toMatchObject({
        errorName: 'org.freedesktop.DBus.Error.UnknownMethod',
      });
    });
  });

  it('has its name again after the bus was restarted', async () => {
    await daemon.restart();
    client.close();
    client = await eventually(() => connectApi({ DBUS_SYSTEM_BUS_ADDRESS: daemon.address }, never));
    expect(await eventually(() => client.report(never), 10_000)).toMatchObject({ bundles: [] });
  });

  it('says that another daemon runs', async () => {
    const second = new SystemBus({ clock: systemClock, log, address: daemon.address });
    await second.start(never);
    const other = new ApiService(second, second, backend, systemClock, log);
    await eventually(() => expect(log.lines.at(-1)?.message).toContain('another stickpin is running'));
    await other.dispose();
    second.close();
  });

  it('is unreachable when the bus takes connections and never answers', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'stickpin-mute-')), 'bus');
    const sockets = new Set<Socket>();
    const mute = createServer((socket) => sockets.add(socket.on('error', () => undefined))).listen(path);
    await once(mute, 'listening');
    const address = `unix:path=${path}`;
    await expect(connectApi({ DBUS_SYSTEM_BUS_ADDRESS: address }, never, 50)).rejects.toMatchObject({
      code: 'api/unreachable',
    });
    const waiting = new SystemBus({ clock: systemClock, log, address, connectMs: 50 });
    await expect(waiting.start(never)).rejects.toMatchObject({ code: 'platform/deadline' });
    waiting.close();
    for (const socket of sockets) socket.destroy();
    mute.close();
    rmSync(dirname(path), { recursive: true });
  });

  it('is unreachable when the daemon is gone, and without a bus', async () => {
    await service.dispose();
    bus.close();
    await expect(
      eventually(() =>
        client.report(never).then(
          () => Promise.reject(new Error('alive')),
          (error: unknown) => error,
        ),
      ),
    ).resolves.toMatchObject({ code: 'api/unreachable', disposition: 'wait' });
    await expect(connectApi({ DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent' }, never)).rejects.toMatchObject(
      coded('api/unreachable', 'systemctl start dbus'),
    );
  });
});
