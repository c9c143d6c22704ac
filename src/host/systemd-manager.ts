import { AppError } from '../platform/app-error.ts';
import { NEVER_ABORTED } from '../platform/async/abort.ts';
import { together, type Unsubscribe } from '../platform/subscription.ts';
import type { DeviceUnitEvent, DeviceUnits, MountRequest } from '../ports/media.ts';
import type { UnitControl } from '../ports/node.ts';
import { type BusSignal, unwrapVariant, variant } from './bus/message-bus.ts';
import type { SystemBus } from './bus/system-bus.ts';
import {
  asUnitError,
  busProperty,
  loadedUnitProperty,
  MANAGER,
  MANAGER_SIGNALS,
  PROPERTIES,
  runJob,
  SYSTEMD,
  subscribeToSignals,
  unitError,
  unitObjectPath,
  unitOfObjectPath,
} from './units.ts';

/**
 * org.freedesktop.systemd1(5). Its calls throw AppError `host/unit` (`retry`). If possible, call
 * `onDeviceUnit` and `onUnitChange` before the bus starts.
 *
 * Introspection proxies would parse 100 KiB of XML at each start.
 */
export class SystemdManager implements UnitControl, DeviceUnits {
  constructor(private readonly bus: SystemBus) {}

  async listUnits(patterns: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const [units] = await this.call('ListUnitsByPatterns', 'asas', [[], [...patterns]], signal);
    return (units as readonly (readonly unknown[])[]).map(([name]) => String(name));
  }

  async unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown> {
    try {
      // GetUnit first: reading a property would load a unit that was just unloaded.
      const [path] = await this.call('GetUnit', 's', [unit], signal);
      const property = { destination: SYSTEMD, path: String(path), iface: `${SYSTEMD}.${iface}`, name };
      return await busProperty(this.bus, property, signal);
    } catch (error) {
      const failure = asUnitError(`Reading ${name} of`, unit, error);
      if (isNoSuchUnit(failure)) return undefined;
      throw failure;
    }
  }

  onDeviceUnit(listener: (event: DeviceUnitEvent) => void): Unsubscribe {
    return watchDeviceUnits(this.bus, listener);
  }

  onUnitChange(unit: string, listener: (activeState?: string) => void): Unsubscribe {
    return watchUnit(this.bus, unit, listener);
  }

  async reloadUnit(unit: string, signal: AbortSignal): Promise<void> {
    const start = () => this.call('ReloadUnit', 'ss', [unit, 'ignore-dependencies'], signal);
    await this.runJob('Reloading', unit, start, signal);
  }

  async stopUnit(unit: string, signal: AbortSignal): Promise<void> {
    try {
      await this.runJob('Stopping', unit, () => this.call('StopUnit', 'ss', [unit, 'replace'], signal), signal);
    } catch (error) {
      if (!isNoSuchUnit(error)) throw error;
    }
  }

  async mount(request: MountRequest, signal: AbortSignal): Promise<void> {
    const { unit, what, type, where } = request;
    const body = [unit, 'fail', mountProperties(request), []];
    const start = () => this.call('StartTransientUnit', 'ssa(sv)a(sa(sv))', body, signal);
    await this.runJob(`Mounting ${what} (${type}) at ${where} by`, unit, start, signal);
  }

  private call(
    member: string,
    signature: string,
    body: readonly unknown[],
    signal: AbortSignal,
  ): Promise<readonly unknown[]> {
    return this.bus.call({ ...MANAGER, member, signature, body }, signal);
  }

  /** @throws AppError as {@link runJob}, and `host/unit` (`retry`) when the job fails */
  private async runJob(
    doing: string,
    unit: string,
    start: () => Promise<readonly unknown[]>,
    signal: AbortSignal,
  ): Promise<void> {
    const result = await runJob(this.bus, doing, unit, start, signal);
    if (result === 'done' || result === 'skipped') return;
    throw unitError(`${doing} ${unit} ended with "${result}"; see 'journalctl -u ${unit}'`);
  }
}

function isNoSuchUnit(error: unknown): boolean {
  return error instanceof AppError && error.code === 'host/no-such-unit';
}

/**
 * LazyUnmount: docs/runtime-facts.md, fact 26. CollectMode: a failed mount must not keep itself and
 * its device's unit in memory.
 */
function mountProperties(request: MountRequest): readonly unknown[] {
  return [
    ['Description', variant('s', request.description)],
    ['What', variant('s', request.what)],
    ['Where', variant('s', request.where)],
    ['Type', variant('s', request.type)],
    ['Options', variant('s', request.options)],
    ['LazyUnmount', variant('b', true)],
    // The mode of parent folders: only root may read plugged media.
    ['DirectoryMode', variant('u', 0o700)],
    ['CollectMode', variant('s', 'inactive-or-failed')],
  ];
}

/** The calls end with the connection, so they need no other signal. */
const forever = NEVER_ABORTED;

/**
 * `resync` comes after each connection, and after each reload of systemd: meanwhile it forgets all
 * units and reports them as removed (org.freedesktop.systemd1(5), `Reloading`), which says nothing
 * about devices.
 */
function watchDeviceUnits(bus: SystemBus, listener: (event: DeviceUnitEvent) => void): Unsubscribe {
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
  const stop = together([
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'UnitNew' }, byName('new')),
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'UnitRemoved' }, byName('removed')),
    bus.onSignal({ ...MANAGER_SIGNALS, member: 'Reloading' }, onReloading),
    // When another unit keeps a device unit loaded, this is the only signal of a new device.
    bus.onSignal(
      { sender: SYSTEMD, interface: PROPERTIES, member: 'PropertiesChanged', arg0: `${SYSTEMD}.Device` },
      (signal) => listener({ kind: 'changed', unit: unitOfObjectPath(signal.path) }),
    ),
    bus.onConnected(resync),
  ]);
  resync();
  return stop;
}

/**
 * Called when `ActiveState` or `MainPID` changed, and after each connection, with `ActiveState`
 * where it is known.
 */
function watchUnit(bus: SystemBus, unit: string, listener: (activeState?: string) => void): Unsubscribe {
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
    if (differs) notify();
  };
  let isOver = false;
  const notify = (): void => {
    if (isOver) return;
    const activeState = last.get('ActiveState');
    listener(typeof activeState === 'string' ? activeState : undefined);
  };
  /** Reads the state that earlier signals announced. */
  const check = async (): Promise<void> => {
    last.clear();
    try {
      await subscribeToSignals(bus, forever);
      const activeState = await loadedUnitProperty(bus, unit, 'Unit', 'ActiveState', forever);
      if (!last.has('ActiveState')) last.set('ActiveState', activeState);
    } catch {
      // There is no connection, or no such unit.
    }
  };
  const stop = together([
    bus.onSignal({ sender: SYSTEMD, interface: PROPERTIES, member: 'PropertiesChanged', path }, onProperties),
    bus.onConnected(() => void check().then(notify)),
  ]);
  void check().then(() => {
    // The caller has read all other states already.
    if (last.get('ActiveState') === 'deactivating') notify();
  });
  return () => {
    isOver = true;
    stop();
  };
}
