import { BusErrorReply, unwrapVariant } from '../../dbus/message-bus.ts';
import type { SystemBus } from '../../dbus/system-bus.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';

interface BusProperty {
  readonly destination: string;
  /** Of the object. */
  readonly path: string;
  readonly iface: string;
  readonly name: string;
}

/**
 * Out of its variant (D-Bus specification, `org.freedesktop.DBus.Properties.Get`).
 *
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

/** Without their member. */
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

/** `result` as in JobRemoved: `failed`, `timeout`. */
export function jobFailed(doing: string, unit: string, result: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `${doing} ${unit} ended with "${result}"; see 'journalctl -u ${unit}'`,
    disposition: 'retry',
  });
}

/** The process belongs to a scope or a slice. */
export function noService(unit: string): AppError<HostErrorCode> {
  return new AppError({
    code: 'host/unit',
    message: `This process belongs to ${unit}, which is no service that systemd could restart`,
    disposition: 'retry',
  });
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
