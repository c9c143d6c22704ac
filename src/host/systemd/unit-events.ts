import { BusErrorReply, type BusSignal, unwrapVariant } from '../../dbus/message-bus.ts';
import type { SystemBus } from '../../dbus/system-bus.ts';
import { AppError } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { DeviceUnitEvent } from '../../ports/device-units.ts';
import {
  asUnitError,
  type HostErrorCode,
  jobFailed,
  loadedUnitProperty,
  MANAGER,
  MANAGER_SIGNALS,
  PROPERTIES,
  SYSTEMD,
  unitObjectPath,
  unitOfObjectPath,
} from './unit-object.ts';

/** The calls end with the connection, so they need no other signal. */
const forever = NEVER_ABORTED;

/**
 * `resync` comes after each connection, and after each reload of systemd: meanwhile it forgets all
 * units and reports them as removed (org.freedesktop.systemd1(5), `Reloading`), which says nothing
 * about devices.
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
    // When another unit keeps a device unit loaded, this is the only signal of a new device.
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

/** systemd sends no signals without a subscriber. Idempotent. */
async function subscribeToSignals(bus: SystemBus, signal: AbortSignal): Promise<void> {
  try {
    await bus.call({ ...MANAGER, member: 'Subscribe' }, signal);
  } catch (error) {
    if (!(error instanceof BusErrorReply && error.errorName === `${SYSTEMD}.AlreadySubscribed`)) throw error;
  }
}

/**
 * Called when `ActiveState` or `MainPID` changed, and after each connection, with `ActiveState`
 * where it is known.
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
      // No connection, or no such unit.
    }
  };
  const stops = [
    bus.onSignal({ sender: SYSTEMD, interface: PROPERTIES, member: 'PropertiesChanged', path }, onProperties),
    bus.onConnected(() => void check().then(notify)),
  ];
  void check().then(() => {
    // The caller has read all other states already.
    if (last.get('ActiveState') === 'deactivating') notify();
  });
  return () => {
    isOver = true;
    for (const stop of stops) stop();
  };
}

/**
 * Runs `start`, which returns a job's path, and waits for its `JobRemoved`.
 *
 * @throws AppError `host/unit` (`retry`) when systemd refuses or the job fails; `host/no-such-unit`
 *   (`retry`)
 */
type JobRunner = (
  doing: string,
  unit: string,
  start: () => Promise<readonly unknown[]>,
  signal: AbortSignal,
) => Promise<void>;

export function createJobRunner(bus: SystemBus): JobRunner {
  const resultOf = createJobWaiter(bus);
  return async (doing, unit, start, signal) => {
    try {
      const result = await resultOf(doing, unit, start, signal);
      if (result !== 'done' && result !== 'skipped') throw jobFailed(doing, unit, result);
    } catch (error) {
      throw asUnitError(doing, unit, error);
    }
  };
}

/**
 * As {@link JobRunner}, but resolves to any result in JobRemoved.
 *
 * @throws AppError `host/unit` (`retry`) when the connection broke meanwhile; errors of `start`
 */
export type JobWaiter = (...args: Parameters<JobRunner>) => Promise<string>;

export function createJobWaiter(bus: SystemBus): JobWaiter {
  return async (doing, unit, start, signal) => {
    const watch = watchJobs(bus);
    try {
      await subscribeToSignals(bus, signal);
      const [job] = await start();
      const result = await watch.resultOf(String(job), signal);
      if (result === undefined) throw connectionLost(doing, unit);
      return result;
    } finally {
      watch.stop();
    }
  };
}

interface JobWatch {
  /** In JobRemoved. Undefined when the connection broke meanwhile. */
  resultOf(job: string, signal: AbortSignal): Promise<string | undefined>;
  stop(): void;
}

/** Starts before the job: a short one may end before its path is known. */
function watchJobs(bus: SystemBus): JobWatch {
  const results = new Map<string, string>();
  /** Undefined before the path is known. A job may run for days, while others end. */
  let wanted: string | undefined;
  let lost = false;
  let wake: () => void = () => undefined;
  const stopSignals = bus.onSignal({ ...MANAGER_SIGNALS, member: 'JobRemoved' }, ({ body }) => {
    const job = String(body[1]);
    if (wanted !== undefined && job !== wanted) return;
    results.set(job, String(body[3]));
    wake();
  });
  const stopConnected = bus.onConnected(() => {
    lost = true;
    wake();
  });
  return {
    resultOf: (job, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => reject(signal.reason);
        wanted = job;
        for (const other of [...results.keys()]) if (other !== job) results.delete(other);
        wake = () => {
          if (!results.has(job) && !lost) return;
          signal.removeEventListener('abort', onAbort);
          resolve(results.get(job));
        };
        signal.throwIfAborted();
        signal.addEventListener('abort', onAbort, { once: true });
        wake();
      }),
    stop: () => {
      stopSignals();
      stopConnected();
    },
  };
}

function connectionLost(doing: string, unit: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `${doing} ${unit}: the connection to systemd broke before the job was over`,
    disposition: 'retry',
  });
}
