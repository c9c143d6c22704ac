import type { SystemBus } from '../../dbus/system-bus.ts';
import { busProperty } from './bus-property.ts';
import { SYSTEMD } from './systemd-names.ts';
import { asUnitError } from './unit-error.ts';
import { unitObjectPath } from './unit-object.ts';

/**
 * One property of a unit. systemd loads the unit from disk if necessary; one that does not exist
 * has the `LoadState` `not-found`. @param iface the last part of the interface, for example `Unit`,
 * `Socket`
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
