import { unwrapVariant } from '../../dbus/message-bus.ts';
import type { SystemBus } from '../../dbus/system-bus.ts';
import { PROPERTIES } from './systemd-names.ts';

/** A property of an object on the bus. */
export interface BusProperty {
  readonly destination: string;
  /** Path of the object. */
  readonly path: string;
  /** The interface that has the property. */
  readonly iface: string;
  readonly name: string;
}

/**
 * The value of a property, out of its variant (D-Bus specification,
 * `org.freedesktop.DBus.Properties.Get`).
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
