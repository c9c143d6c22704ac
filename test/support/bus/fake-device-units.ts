import type { DeviceUnitEvent, DeviceUnits } from '../../../src/ports/media.ts';

/** A mount as it was asked for. */
type MountRequest = Parameters<DeviceUnits['mount']>[0];

/** Device units and mounts as plain data. */
export interface FakeDeviceUnits extends DeviceUnits {
  readonly mounts: readonly MountRequest[];
  readonly stopped: readonly string[];
  /** A unit appears, `active` unless said otherwise. */
  plug(unit: string, sysfsPath: string, activeState?: string): void;
  unplug(unit: string): void;
  /** Adds a unit without a word, as one that was there before anybody listened. */
  putQuietly(unit: string, sysfsPath: string): void;
  send(event: DeviceUnitEvent): void;
  /** What mounting does; default nothing. */
  onMount: (request: MountRequest) => Promise<void>;
  /** What stopping a unit does; default nothing. */
  onStop: (unit: string) => Promise<void>;
}

/** Makes {@link FakeDeviceUnits} without any unit. */
export function createFakeDeviceUnits(): FakeDeviceUnits {
  const units = new Map<string, Readonly<Record<string, string>>>();
  const listeners = new Set<(event: DeviceUnitEvent) => void>();
  const mounts: MountRequest[] = [];
  const stopped: string[] = [];
  const fake: FakeDeviceUnits = {
    mounts,
    stopped,
    onMount: async () => undefined,
    onStop: async () => undefined,
    send: (event) => {
      for (const listener of listeners) listener(event);
    },
    putQuietly: (unit, sysfsPath) => {
      units.set(unit, { 'Unit.ActiveState': 'active', 'Device.SysFSPath': sysfsPath });
    },
    plug: (unit, sysfsPath, activeState = 'active') => {
      units.set(unit, { 'Unit.ActiveState': activeState, 'Device.SysFSPath': sysfsPath });
      fake.send({ kind: 'new', unit });
    },
    unplug: (unit) => {
      units.delete(unit);
      fake.send({ kind: 'removed', unit });
    },
    listUnits: async () => [...units.keys()],
    unitProperty: async (unit, iface, name) => units.get(unit)?.[`${iface}.${name}`],
    onDeviceUnit: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    mount: async (request) => {
      mounts.push(request);
      await fake.onMount(request);
    },
    stopUnit: async (unit) => {
      stopped.push(unit);
      await fake.onStop(unit);
    },
  };
  return fake;
}
