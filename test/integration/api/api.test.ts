import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ApiBackend, ApiProperties } from '../../../src/api/backend.ts';
import { type ApiClient, connectApi } from '../../../src/api/client.ts';
import { type ApiService, createApiService } from '../../../src/api/service.ts';
import { type BusSignal, busCall, connectMessageBus, type MessageBus } from '../../../src/dbus/message-bus.ts';
import { createSystemBus, type SystemBus } from '../../../src/dbus/system-bus.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const never = new AbortController().signal;
const IFACE = 'io.stickpin1.Manager';

describe.runIf(have('dbus-daemon'))('D-Bus service', () => {
  let daemon: PrivateBus;
  let bus: SystemBus;
  let service: ApiService;
  let client: ApiClient;
  let properties: ApiProperties;
  let changed: () => void = () => undefined;
  let done: string[];
  let refusal: unknown;
  const log = createRecordingLog();

  const backend: ApiBackend = {
    properties: () => properties,
    status: async () => ({ status: properties.status, bundles: [] }),
    list: async () => [{ name: 'ocp', version: '4.13.7' }],
    activate: async (bundle) => {
      if (refusal !== undefined) throw refusal;
      done.push(`activate ${bundle}`);
    },
    rollback: async (stream) => {
      if (refusal !== undefined) throw refusal;
      done.push(`rollback ${stream}`);
      return 'ocp@4.13.6';
    },
    unpin: async (bundle, options) => {
      if (refusal !== undefined) throw refusal;
      done.push(`unpin ${bundle} ${JSON.stringify(options)}`);
    },
    unpinUnclaimed: async (force) => {
      done.push(`unpin unclaimed ${force}`);
      return '2 unclaimed pins were given up by hand';
    },
    cancel: async () => {
      done.push('cancel');
    },
    history: async (bundle) => [{ at: 1, kind: 'bundleReady', message: `${bundle} is ready` }],
    restoreKey: async (keyId, uid) => `${keyId} for ${uid}`,
    approve: async (bundle) => {
      done.push(`approve ${bundle}`);
      return `${bundle} is approved.`;
    },
    reject: async (bundle) => {
      done.push(`reject ${bundle}`);
      return `${bundle} is rejected.`;
    },
    rescan: async () => {
      done.push('rescan');
    },
    load: async (path) => {
      if (refusal !== undefined) throw refusal;
      done.push(`load ${path}`);
      return 'sdb1';
    },
    onChange: (listener) => {
      changed = listener;
      return () => undefined;
    },
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
    properties = {
      status: 'Idle. Waiting for media.',
      operation: 'idle',
      progress: { percentage: 0, message: '', depth: 0 },
      lastError: '',
      version: '0.1.0',
    };
    bus = createSystemBus({ clock: systemClock, log, address: daemon.address });
    service = createApiService({ bus, backend, log });
    await bus.start(never);
    client = await connectApi({ DBUS_SYSTEM_BUS_ADDRESS: daemon.address }, never);
    await eventually(() => client.status(never));
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

  it('answers the documents as JSON', async () => {
    expect(await client.status(never)).toEqual({ status: 'Idle. Waiting for media.', bundles: [] });
    expect(await client.list(never)).toEqual([{ name: 'ocp', version: '4.13.7' }]);
  });

  it('loads a path and says what it is called, or why not', async () => {
    expect(await client.load('/mnt/share', never)).toBe('sdb1');
    expect(done).toEqual(['load /mnt/share']);
    refusal = new AppError({ code: 'media/load', message: '/mnt/share is a link', disposition: 'reject' });
    await expect(client.load('/mnt/share', never)).rejects.toMatchObject({
      code: 'media/load',
      message: '/mnt/share is a link',
    });
  });

  it('answers the history', async () => {
    const line = { at: 1, kind: 'bundleReady', message: 'ocp@4.13.7 is ready' };
    expect(await client.history('ocp@4.13.7', never)).toEqual([line]);
  });

  it('approves and rejects, and tells what that does', async () => {
    done = [];
    expect(await client.approve('ocp@4.13.7', never)).toBe('ocp@4.13.7 is approved.');
    expect(await client.reject('ocp@4.13.7', never)).toBe('ocp@4.13.7 is rejected.');
    expect(done).toEqual(['approve ocp@4.13.7', 'reject ocp@4.13.7']);
  });

  it('restores a key for the user whom the bus names', async () => {
    expect(await client.restoreKey('ab', never)).toBe(`ab for ${process.getuid?.()}`);
  });

  it('rolls back and unpins, and tells who refuses', async () => {
    expect(await client.rollback('ocp', never)).toBe('ocp@4.13.6');
    await client.unpin('ocp@4.13.5', { removeImages: true, force: false }, never);
    expect(done).toEqual(['rollback ocp', 'unpin ocp@4.13.5 {"removeImages":true,"force":false}']);
    refusal = new AppError({ code: 'engine/running', message: 'it may run', disposition: 'reject' });
    await expect(client.unpin('ocp@4.13.6', { removeImages: false, force: false }, never)).rejects.toMatchObject({
      code: 'engine/running',
      message: 'it may run',
    });
  });

  it('activates, cancels and rescans', async () => {
    await client.activate('ocp@4.13.7', never);
    await client.cancel(never);
    await client.rescan(never);
    expect(done).toEqual(['activate ocp@4.13.7', 'cancel', 'rescan']);
  });

  it('carries the code and the message of an error to the client', async () => {
    refusal = new AppError({
      code: 'engine/no-such-bundle',
      message: 'There is no bundle ocp@9',
      disposition: 'reject',
    });
    await expect(client.activate('ocp@9', never)).rejects.toMatchObject({
      code: 'engine/no-such-bundle',
      message: 'There is no bundle ocp@9',
    });
    await raw(async (peer) => {
      const error = await peer.call(to(IFACE, 'Activate', 's', ['x']), never).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ errorName: 'io.stickpin1.Error.Engine.NoSuchBundle' });
    });
  });

  it('gives properties with the types of the interface', async () => {
    properties = {
      ...properties,
      operation: 'preloading',
      progress: { percentage: 41.6, message: '37/112 images', depth: 1 },
    };
    await raw(async (peer) => {
      const [all] = await peer.call(to('org.freedesktop.DBus.Properties', 'GetAll', 's', [IFACE]), never);
      expect(all).toMatchObject({
        Status: { signature: 's', value: 'Idle. Waiting for media.' },
        Operation: { signature: 's', value: 'preloading' },
        Progress: { signature: '(isi)', value: [42, '37/112 images', 1] },
        LastError: { signature: 's', value: '' },
        Version: { signature: 's', value: '0.1.0' },
      });
      const [one] = await peer.call(to('org.freedesktop.DBus.Properties', 'Get', 'ss', [IFACE, 'Operation']), never);
      expect(one).toMatchObject({ signature: 's', value: 'preloading' });
      await expect(
        peer.call(to('org.freedesktop.DBus.Properties', 'Get', 'ss', [IFACE, 'Nothing']), never),
      ).rejects.toMatchObject({ errorName: 'org.freedesktop.DBus.Error.UnknownProperty' });
    });
  });

  it('announces what changed, once for many changes, and nothing when nothing did', async () => {
    await raw(async (peer) => {
      const heard: BusSignal[] = [];
      peer.onSignal((signal) => {
        if (signal.member === 'PropertiesChanged') heard.push(signal);
      });
      await peer.call(busCall('AddMatch', 's', ["type='signal',sender='io.stickpin1'"]), never);
      changed();
      properties = { ...properties, status: 'one' };
      changed();
      properties = { ...properties, status: 'two', lastError: 'x' };
      changed();
      await eventually(() => expect(heard).toHaveLength(1));
      expect(heard[0]?.body).toMatchObject([IFACE, { Status: { value: 'two' }, LastError: { value: 'x' } }, []]);
      expect(Object.keys(heard[0]?.body[1] as object)).toEqual(['Status', 'LastError']);
    });
  });

  it('lets a client watch', async () => {
    let seen = 0;
    await client.watch(() => {
      seen += 1;
    }, never);
    properties = { ...properties, status: 'new' };
    changed();
    await eventually(() => expect(seen).toBe(1));
  });

  it('tells tools what it is', async () => {
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
    expect(await eventually(() => client.status(never), 10_000)).toMatchObject({ bundles: [] });
  });

  it('says that another daemon runs', async () => {
    const second = createSystemBus({ clock: systemClock, log, address: daemon.address });
    await second.start(never);
    const other = createApiService({ bus: second, backend, log });
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
    const waiting = createSystemBus({ clock: systemClock, log, address, connectMs: 50 });
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
        client.status(never).then(
          () => Promise.reject(new Error('alive')),
          (error: unknown) => error,
        ),
      ),
    ).resolves.toMatchObject({ code: 'api/unreachable', disposition: 'wait' });
    await expect(connectApi({ DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent' }, never)).rejects.toMatchObject({
      code: 'api/unreachable',
      message: expect.stringContaining('systemctl start dbus'),
    });
  });
});
