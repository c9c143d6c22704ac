import type { SystemBus } from '../../dbus/system-bus.ts';
import { busProperty } from './bus-property.ts';
import { SYSTEMD } from './systemd-names.ts';
import { asUnitError } from './unit-error.ts';
import { unitObjectPath } from './unit-object.ts';

/**
 * One property of a unit, which systemd loads from disk for it if need be: one that does not exist
 * has the `LoadState` `not-found`. `iface` is the last part: `Unit`, `Socket`.
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
