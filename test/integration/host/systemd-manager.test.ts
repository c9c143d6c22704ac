import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connectMessageBus } from '../../../src/host/bus/message-bus.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { SystemdManager } from '../../../src/host/systemd-manager.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import type { DeviceUnitEvent } from '../../../src/ports/media.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../support/bus/systemd-double.ts';
import { eventually } from '../../support/eventually.ts';
import { coded } from '../../support/matching.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const never = new AbortController().signal;
const STICK = 'dev-sdb1.device';
const SYSFS = '/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb/sdb1';

describe.runIf(have('dbus-daemon'))('systemd manager', () => {
  let daemon: PrivateBus;
  let systemd: SystemdDouble;
  let bus: SystemBus;
  let manager: SystemdManager;
  let events: DeviceUnitEvent[];
  let log: RecordingLog;

  beforeAll(async () => {
    daemon = await startPrivateBus();
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    systemd = await startSystemdDouble(daemon.address);
    log = createRecordingLog();
    bus = new SystemBus({ clock: systemClock, log, address: daemon.address });
    manager = new SystemdManager(bus);
    events = [];
    manager.onDeviceUnit((event) => events.push(event));
    await bus.start(never);
    await eventually(() => expect(events).toEqual([{ kind: 'resync' }]));
  });
  afterEach(() => {
    bus.close();
    systemd.stop();
  });

  it('reports devices that appear, change and disappear, and no other units', async () => {
    systemd.addUnit('some.service', {});
    systemd.plug(STICK, SYSFS);
    systemd.changeProperties(STICK, 'Device', { SysFSPath: SYSFS });
    systemd.changeProperties(STICK, 'Unit', { ActiveState: 'active' });
    systemd.removeUnit(STICK);
    await eventually(() =>
      expect(events.slice(1)).toEqual([
        { kind: 'new', unit: STICK },
        { kind: 'changed', unit: STICK },
        { kind: 'removed', unit: STICK },
      ]),
    );
  });

  it('lists what is there and reads properties, without loading what is gone', async () => {
    systemd.plug(STICK, SYSFS);
    expect(await manager.listUnits(['dev-*.device'], never)).toEqual([STICK]);
    expect(await manager.unitProperty(STICK, 'Device', 'SysFSPath', never)).toBe(SYSFS);
    const before = systemd.calls.length;
    expect(await manager.unitProperty('dev-sdz1.device', 'Device', 'SysFSPath', never)).toBeUndefined();
    expect(systemd.calls.slice(before)).toEqual(['GetUnit']);
  });

  it('mounts by a transient unit and waits until the job is over', async () => {
    const asked: unknown[] = [];
    systemd.hooks = {
      mount: async (unit, properties) => {
        asked.push([unit, properties]);
        return 'done';
      },
    };
    const unit = 'run-stickpin-media-7\\x2dsdb1.mount';
    const where = '/run/stickpin/media/7-sdb1';
    await manager.mount(
      { unit, description: 'Medium sdb1', what: '/dev/sdb1', where, type: 'vfat', options: 'ro,nosuid' },
      never,
    );
    expect(asked).toEqual([
      [
        unit,
        {
          Description: 'Medium sdb1',
          What: '/dev/sdb1',
          Where: where,
          Type: 'vfat',
          Options: 'ro,nosuid',
          DirectoryMode: 0o700,
          LazyUnmount: true,
          CollectMode: 'inactive-or-failed',
        },
      ],
    ]);
  });

  it('turns a failed job into an error that names the unit', async () => {
    systemd.hooks = { reload: async () => 'failed' };
    systemd.addUnit('crio.service', {});
    await expect(manager.reloadUnit('crio.service', never)).rejects.toMatchObject({
      code: 'host/unit',
      disposition: 'retry',
      message: expect.stringMatching(/crio\.service.*"failed"/),
    });
  });

  it('turns a refusal into an error with the words of systemd', async () => {
    await expect(manager.reloadUnit('no.service', never)).rejects.toMatchObject(
      coded('host/no-such-unit', 'Unit no.service not found.'),
    );
  });

  it('counts the stop of a unit that does not exist as done', async () => {
    await expect(manager.stopUnit('no.mount', never)).resolves.toBeUndefined();
  });

  it('reloads without waiting for other jobs, such as the stop of its own unit', async () => {
    const modes: string[] = [];
    systemd.hooks = {
      reload: async (_unit, mode) => {
        modes.push(mode);
        return 'done';
      },
    };
    systemd.addUnit('crio.service', {});
    await manager.reloadUnit('crio.service', never);
    expect(modes).toEqual(['ignore-dependencies']);
  });

  it('stops waiting for a job when asked to', async () => {
    systemd.hooks = { reload: () => new Promise(() => undefined) };
    systemd.addUnit('crio.service', {});
    const stop = new AbortController();
    const waiting = manager.reloadUnit('crio.service', stop.signal);
    await eventually(() => expect(systemd.calls).toContain('ReloadUnit'));
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });

  it('watches a unit for a new state or a new main process only', async () => {
    let changes = 0;
    const off = manager.onUnitChange('crio.service', () => {
      changes += 1;
    });
    systemd.addUnit('crio.service', {});
    systemd.changeProperties('crio.service', 'Service', { MainPID: 10 });
    systemd.changeProperties('crio.service', 'Service', { MainPID: 10 });
    systemd.changeProperties('crio.service', 'Service', { StatusText: 'x' });
    systemd.changeProperties('crio.service', 'Unit', { ActiveState: 'active' });
    systemd.changeProperties('other.service', 'Unit', { ActiveState: 'active' });
    systemd.plug(STICK, SYSFS); // comes after the others, in order
    await eventually(() => expect(events).toContainEqual({ kind: 'new', unit: STICK }));
    expect(changes).toBe(2);
    off();
  });

  it('reports the state of a unit with each change, and a stop in progress at once', async () => {
    systemd.addUnit('crio.service', { Unit: { ActiveState: 'deactivating' } });
    const states: unknown[] = [];
    const off = manager.onUnitChange('crio.service', (state) => states.push(state));
    await eventually(() => expect(states).toEqual(['deactivating']));
    for (const ActiveState of ['inactive', 'activating', 'active'])
      systemd.changeProperties('crio.service', 'Unit', { ActiveState });
    systemd.changeProperties('crio.service', 'Service', { MainPID: 11 });
    await eventually(() => expect(states).toEqual(['deactivating', 'inactive', 'activating', 'active', 'active']));
    off();
  });

  it('reads the state of a unit again when the bus is back', async () => {
    systemd.addUnit('crio.service', { Unit: { ActiveState: 'deactivating' } });
    const states: unknown[] = [];
    const off = manager.onUnitChange('crio.service', (state) => states.push(state));
    await eventually(() => expect(states).toEqual(['deactivating']));
    await daemon.restart();
    await eventually(() => expect(log.lines.at(-1)?.message).toContain('again'), 10_000);
    systemd = await startSystemdDouble(daemon.address);
    systemd.addUnit('crio.service', { Unit: { ActiveState: 'active' } });
    await eventually(() => expect(states.at(-1)).toBe('active'), 10_000);
    off();
  });

  it('takes no device for removed while systemd reloads, and looks again afterwards', async () => {
    systemd.plug(STICK, SYSFS);
    systemd.reload();
    systemd.removeUnit(STICK);
    await eventually(() =>
      expect(events).toEqual([
        { kind: 'resync' },
        { kind: 'new', unit: STICK },
        { kind: 'resync' },
        { kind: 'removed', unit: STICK },
      ]),
    );
  });

  it('accepts signals only from the owner of the name of systemd', async () => {
    const stranger = await connectMessageBus(daemon.address, never);
    const path = '/org/freedesktop/systemd1';
    const member = 'UnitRemoved';
    stranger.emit({
      path,
      interface: 'org.freedesktop.systemd1.Manager',
      member,
      signature: 'so',
      body: [STICK, path],
    });
    await stranger.call(
      { destination: 'org.freedesktop.DBus', path: '/', interface: 'org.freedesktop.DBus', member: 'GetId' },
      never,
    );
    stranger.close();
    systemd.plug('dev-sdc1.device', SYSFS);
    await eventually(() => expect(events).toContainEqual({ kind: 'new', unit: 'dev-sdc1.device' }));
    expect(events).not.toContainEqual({ kind: 'removed', unit: STICK });
  });

  it('reconnects when the bus is back, and reads everything again when systemd is on it', async () => {
    await daemon.restart();
    await expect(manager.listUnits(['dev-*.device'], never)).rejects.toMatchObject({
      code: 'platform/bus-unreachable',
    });
    await eventually(() => expect(log.lines.at(-1)?.message).toContain('again'), 10_000);
    systemd = await startSystemdDouble(daemon.address);
    await eventually(() => expect(events).toEqual([{ kind: 'resync' }, { kind: 'resync' }]));
    systemd.plug(STICK, SYSFS);
    await eventually(() => expect(events).toContainEqual({ kind: 'new', unit: STICK }));
    expect(log.lines.map(({ level }) => level)).toContain('warn');
    expect(log.kinds()).toEqual(['busLost', 'busBack']);
  });

  it('keeps trying when there is no bus at first', async () => {
    const other = await startPrivateBus();
    await other.stop();
    const late = new SystemBus({ clock: systemClock, log, address: other.address });
    let connected = 0;
    late.onConnected(() => {
      connected += 1;
    });
    await expect(late.start(never)).rejects.toMatchObject({ code: 'platform/bus-unreachable' });
    await other.restart();
    await eventually(() => expect(connected).toBe(1), 10_000);
    late.close();
    await other[Symbol.asyncDispose]();
  });
});
