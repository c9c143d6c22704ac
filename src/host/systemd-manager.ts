import { variant } from '../../dbus/message-bus.ts';
import type { SystemBus } from '../../dbus/system-bus.ts';
import { AppError } from '../../platform/app-error.ts';
import type { DeviceUnits, MountRequest } from '../../ports/device-units.ts';
import type { UnitControl } from '../../ports/node.ts';
import { createJobRunner, watchDeviceUnits, watchUnit } from './unit-events.ts';
import { asUnitError, busProperty, MANAGER, SYSTEMD } from './unit-object.ts';

/** org.freedesktop.systemd1(5). Its calls throw AppError `host/unit` (`retry`). */
export interface SystemdManager extends UnitControl, DeviceUnits {}

/**
 * If possible, call `onDeviceUnit` and `onUnitChange` before the bus starts.
 *
 * Introspection proxies would parse 100 KiB of XML at each start.
 */
export function createSystemdManager(deps: { readonly bus: SystemBus }): SystemdManager {
  const { bus } = deps;
  const call = async (
    member: string,
    signature: string,
    body: readonly unknown[],
    signal: AbortSignal,
  ): Promise<readonly unknown[]> => bus.call({ ...MANAGER, member, signature, body }, signal);
  const runJob = createJobRunner(bus);

  return {
    listUnits: async (patterns, signal) => {
      const [units] = await call('ListUnitsByPatterns', 'asas', [[], [...patterns]], signal);
      return (units as readonly (readonly unknown[])[]).map(([name]) => String(name));
    },
    unitProperty: async (unit, iface, name, signal) => {
      try {
        // GetUnit first: reading a property would load a unit that was just unloaded.
        const [path] = await call('GetUnit', 's', [unit], signal);
        const property = { destination: SYSTEMD, path: String(path), iface: `${SYSTEMD}.${iface}`, name };
        return await busProperty(bus, property, signal);
      } catch (error) {
        const failure = asUnitError(`Reading ${name} of`, unit, error);
        if (failure instanceof AppError && failure.code === 'host/no-such-unit') return undefined;
        throw failure;
      }
    },
    onDeviceUnit: (listener) => watchDeviceUnits(bus, listener),
    onUnitChange: (unit, listener) => watchUnit(bus, unit, listener),
    reloadUnit: async (unit, signal) => {
      await runJob('Reloading', unit, () => call('ReloadUnit', 'ss', [unit, 'ignore-dependencies'], signal), signal);
    },
    stopUnit: async (unit, signal) => {
      try {
        await runJob('Stopping', unit, () => call('StopUnit', 'ss', [unit, 'replace'], signal), signal);
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'host/no-such-unit')) throw error;
      }
    },
    mount: async (request, signal) => {
      const start = () =>
        call('StartTransientUnit', 'ssa(sv)a(sa(sv))', [request.unit, 'fail', mountProperties(request), []], signal);
      await runJob(`Mounting ${request.what} (${request.type}) at ${request.where} by`, request.unit, start, signal);
    },
  };
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
    // Of parent folders: only root may read plugged media.
    ['DirectoryMode', variant('u', 0o700)],
    ['CollectMode', variant('s', 'inactive-or-failed')],
  ];
}
