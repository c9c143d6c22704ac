import { BusErrorReply, type BusSignal, unwrapVariant } from '../../dbus/message-bus.ts';
import type { SystemBus } from '../../dbus/system-bus.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { DeviceUnitEvent } from '../../ports/device-units.ts';
import { loadedUnitProperty } from './loaded-unit.ts';
import { MANAGER, MANAGER_SIGNALS, PROPERTIES, SYSTEMD } from './systemd-names.ts';
import { unitObjectPath, unitOfObjectPath } from './unit-object.ts';

/** The calls below end with the connection, so they need no other signal. */
const forever = NEVER_ABORTED;

/**
 * Watches device units. `resync` comes after each connection, and after each reload of systemd: in
 * between it forgets all units and reports them as removed (org.freedesktop.systemd1(5),
 * `Reloading`), which says nothing about devices.
 */
export function watchDeviceUnits(bus: SystemBus, listener: (event: DeviceUnitEvent) => void): Unsubscribe {
  let isReloading = false;
  const byName = (kind: 'new' | 'removed') => (signal: BusSignal) => {
    const unit = String(signal.body[0]);
    if (unit.endsWith('.device') && !isReloading) listener({ kind, unit });
  };
  const onReloading = ({ body: [begins] }: BusSignal): void => {
    isReloading = begins === true;
    if (!isReloading) listener({ kind: 'resync' });
  };
  const resync = (): void => {
    isReloading = false;
    subscribeToSignals(bus, forever).then(
      () => listener({ kind: 'resync' }),
      () => undefined, // there is no connection now; the next one repeats this
    );
  };
  const stops = [
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'UnitNew' }, byName('new')),
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'UnitRemoved' }, byName('removed')),
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'Reloading' }, onReloading),
    // When another unit keeps a device unit loaded, a new device gives only this signal.
    bus.onSignal(
      { sender: SYSTEMD, interface: PROPERTIES, member: 'PropertiesChanged', arg0: `${SYSTEMD}.Device` },
      (signal) => listener({ kind: 'changed', unit: unitOfObjectPath(signal.path) }),
    ),
    bus.onConnected(resync),
  ];
  resync();
  return () => {
    for (const stop of stops) stop();
  };
}

/** Asks systemd to send signals; it sends none without a subscriber. Idempotent. */
export async function subscribeToSignals(bus: SystemBus, signal: AbortSignal): Promise<void> {
  try {
    await bus.call({ ...MANAGER, member: 'Subscribe' }, signal);
  } catch (error) {
    if (!(error instanceof BusErrorReply && error.errorName === `${SYSTEMD}.AlreadySubscribed`)) throw error;
  }
}

/**
 * Calls `listener` when `ActiveState` or `MainPID` of the unit changed, and after each connection,
 * with `ActiveState` where it is known.
 */
export function watchUnit(bus: SystemBus, unit: string, listener: (activeState?: string) => void): Unsubscribe {
  const path = unitObjectPath(unit);
  const last = new Map<string, unknown>();
  const onProperties = (signal: BusSignal): void => {
    const changed = signal.body[1] as Readonly<Record<string, unknown>>;
    let differs = false;
    for (const name of ['ActiveState', 'MainPID']) {
      if (!(name in changed)) continue;
      const value = unwrapVariant(changed[name]);
      differs ||= last.get(name) !== value;
      last.set(name, value);
    }
    if (differs) tell();
  };
  let isOver = false;
  const tell = (): void => {
    if (isOver) return;
    const activeState = last.get('ActiveState');
    listener(typeof activeState === 'string' ? activeState : undefined);
  };
  /** Reads the state that earlier signals announced. */
  const ask = async (): Promise<void> => {
    last.clear();
    try {
      await subscribeToSignals(bus, forever);
      const activeState = await loadedUnitProperty(bus, unit, 'Unit', 'ActiveState', forever);
      if (!last.has('ActiveState')) last.set('ActiveState', activeState);
    } catch {
      // There is no connection now, or no such unit.
    }
  };
  const stops = [
    bus.onSignal({ sender: SYSTEMD, interface: PROPERTIES, member: 'PropertiesChanged', path }, onProperties),
    bus.onConnected(() => void ask().then(tell)),
  ];
  void ask().then(() => {
    // The caller has read all other states already.
    if (last.get('ActiveState') === 'deactivating') tell();
  });
  return () => {
    isOver = true;
    for (const stop of stops) stop();
  };
}
