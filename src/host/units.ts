import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted } from '../platform/async/abort.ts';
import { together, type Unsubscribe } from '../platform/subscription.ts';
import { BusErrorReply, unwrapVariant } from './bus/message-bus.ts';
import type { SystemBus } from './bus/system-bus.ts';

interface BusProperty {
  readonly destination: string;
  /** The path of the object. */
  readonly path: string;
  readonly iface: string;
  readonly name: string;
}

/**
 * Takes the value out of its variant (D-Bus specification, `org.freedesktop.DBus.Properties.Get`).
 * @throws errors of {@link SystemBus.call}
 */
export async function busProperty(
  bus: SystemBus,
  { destination, path, iface, name }: BusProperty,
  signal: AbortSignal,
): Promise<unknown> {
  const call = { destination, path, interface: PROPERTIES, member: 'Get', signature: 'ss', body: [iface, name] };
  const [value] = await bus.call(call, signal);
  return unwrapVariant(value);
}

/**
 * systemd loads the unit from disk if necessary; a missing one has the `LoadState` `not-found`.
 * @param iface the last part of the interface, for example `Unit`, `Socket`
 *
 * @throws AppError `host/unit` (`retry`)
 */
export async function loadedUnitProperty(
  bus: SystemBus,
  unit: string,
  iface: string,
  name: string,
  signal: AbortSignal,
): Promise<unknown> {
  const path = unitObjectPath(unit);
  try {
    return await busProperty(bus, { destination: SYSTEMD, path, iface: `${SYSTEMD}.${iface}`, name }, signal);
  } catch (error) {
    throw asUnitError(`Reading ${name} of`, unit, error);
  }
}

/** org.freedesktop.systemd1(5). */
export const SYSTEMD = 'org.freedesktop.systemd1';

export const MANAGER = {
  destination: SYSTEMD,
  path: '/org/freedesktop/systemd1',
  interface: `${SYSTEMD}.Manager`,
} as const;

/** The match without a member. */
export const MANAGER_SIGNALS = { sender: SYSTEMD, interface: MANAGER.interface, path: MANAGER.path } as const;

export const PROPERTIES = 'org.freedesktop.DBus.Properties';

const ROOT = '/org/freedesktop/systemd1/unit';

/**
 * `crio.service` → `/org/freedesktop/systemd1/unit/crio_2eservice` (systemd, `sd_bus_path_encode`).
 */
export function unitObjectPath(unit: string): string {
  if (unit === '') return `${ROOT}/_`;
  const bytes = [...Buffer.from(unit, 'utf8')];
  return `${ROOT}/${bytes.map((byte, index) => encodeByte(byte, index)).join('')}`;
}

function encodeByte(byte: number, index: number): string {
  const character = String.fromCharCode(byte);
  const plain = index === 0 ? /[A-Za-z]/ : /[A-Za-z0-9]/;
  return plain.test(character) ? character : `_${byte.toString(16).padStart(2, '0')}`;
}

/** The inverse of {@link unitObjectPath}. */
export function unitOfObjectPath(path: string): string {
  const encoded = path.slice(path.lastIndexOf('/') + 1);
  const bytes = encoded.replace(/_([0-9a-f]{2})/g, (_all, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

export type HostErrorCode = 'host/unit' | 'host/no-such-unit';

export function unitError(message: string): AppError<HostErrorCode> {
  return new AppError({ code: 'host/unit', message, disposition: 'retry' });
}

/** An error reply of systemd as AppError `host/no-such-unit` or `host/unit`; other errors stay. */
export function asUnitError(doing: string, unit: string, error: unknown): unknown {
  if (!(error instanceof BusErrorReply)) return error;
  const code: HostErrorCode = error.errorName === `${SYSTEMD}.NoSuchUnit` ? 'host/no-such-unit' : 'host/unit';
  return new AppError({
    code,
    message: `${doing} ${unit} was refused by systemd: ${reasonOf(error)} (${error.errorName})`,
    disposition: 'retry',
    cause: error,
  });
}

/**
 * Starts a job and waits for its end.
 *
 * @param start returns the path of the job
 * @returns the result in its JobRemoved: `done`, `skipped`, `failed`, `timeout`, …
 * @throws AppError `host/unit` (`retry`) when systemd refuses or the connection broke meanwhile;
 *   `host/no-such-unit` (`retry`)
 */
export async function runJob(
  bus: SystemBus,
  doing: string,
  unit: string,
  start: () => Promise<readonly unknown[]>,
  signal: AbortSignal,
): Promise<string> {
  const watch = new JobWatch(bus);
  try {
    await subscribeToSignals(bus, signal);
    const [job] = await start();
    const result = await watch.resultOf(String(job), signal);
    if (result !== undefined) return result;
    throw unitError(`${doing} ${unit}: the connection to systemd broke before the job was over`);
  } catch (error) {
    throw asUnitError(doing, unit, error);
  } finally {
    watch.stop();
  }
}

/** Starts before the job: a short one may end before its path is known. */
class JobWatch {
  private readonly results = new Map<string, string>();
  /** It is undefined before the path is known. A job may run for days, while others end. */
  private wanted: string | undefined;
  private isLost = false;
  private wake: () => void = () => undefined;
  readonly stop: Unsubscribe;

  constructor(bus: SystemBus) {
    this.stop = together([
      bus.onSignal({ ...MANAGER_SIGNALS, member: 'JobRemoved' }, ({ body }) => {
        const job = String(body[1]);
        if (this.wanted !== undefined && job !== this.wanted) return;
        this.results.set(job, String(body[3]));
        this.wake();
      }),
      bus.onConnected(() => {
        this.isLost = true;
        this.wake();
      }),
    ]);
  }

  /** Returns undefined when the connection broke meanwhile. */
  resultOf(job: string, signal: AbortSignal): Promise<string | undefined> {
    this.wanted = job;
    for (const other of [...this.results.keys()]) if (other !== job) this.results.delete(other);
    const over = new Promise<string | undefined>((resolve) => {
      this.wake = () => {
        if (this.results.has(job) || this.isLost) resolve(this.results.get(job));
      };
    });
    this.wake();
    return untilAborted(over, signal);
  }
}

/** systemd sends no signals without a subscriber. Idempotent. */
export async function subscribeToSignals(bus: SystemBus, signal: AbortSignal): Promise<void> {
  try {
    await bus.call({ ...MANAGER, member: 'Subscribe' }, signal);
  } catch (error) {
    if (!(error instanceof BusErrorReply && error.errorName === `${SYSTEMD}.AlreadySubscribed`)) throw error;
  }
}

/**
 * Restarts the service of this process without a wait: the restart begins with a SIGTERM to this
 * process. systemd then sets its count of automatic restarts, and with it the pause of
 * `RestartSteps=`, to zero (systemd.service(5)). A stop in the queue wins (mode `fail`).
 * @param pid default: of this process
 * @throws AppError `host/unit` (`retry`) when systemd refuses, or the process belongs to no
 * service; `platform/bus-unreachable` (`retry`)
 */
export async function restartOwnUnit(bus: SystemBus, signal: AbortSignal, pid: number = process.pid): Promise<void> {
  const unit = await ownUnit(bus, pid, signal);
  if (!unit.endsWith('.service')) {
    // A scope or a slice.
    throw unitError(`This process belongs to ${unit}, which is no service that systemd could restart`);
  }
  try {
    await bus.call({ ...MANAGER, member: 'RestartUnit', signature: 'ss', body: [unit, 'fail'] }, signal);
  } catch (error) {
    throw asUnitError('Restarting', unit, error);
  }
}

async function ownUnit(bus: SystemBus, pid: number, signal: AbortSignal): Promise<string> {
  try {
    const [path] = await bus.call({ ...MANAGER, member: 'GetUnitByPID', signature: 'u', body: [pid] }, signal);
    return unitOfObjectPath(String(path));
  } catch (error) {
    throw asUnitError('Finding', `the unit of process ${pid}`, error);
  }
}
