import { type Finding, findingsOn } from '../domain/model/finding.ts';
import type { Check } from './run-checks.ts';

/** systemd's manager, as far as the looks need it. */
export interface UnitProperties {
  /** A property of a unit, loaded if need be; undefined when there is no such unit. */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
}

const UNITS = ['stickpin.service', 'stickpin-registry.socket', 'stickpin-clear-mirrors.service'] as const;

const NO_ANSWER =
  "look at systemd with 'systemctl status dbus' and 'systemctl list-jobs', then run 'stickpin doctor' again";

/** Whether systemd knows, enables and runs what is ours, and the socket is where the settings say (`127.0.0.1:5317`). */
export function checkUnits(manager: UnitProperties, listen: string): Check[] {
  return [
    // A look has a signal of its own; Node warns on stderr when more than ten calls listen to one.
    ...UNITS.map((unit) => ({
      subject: 'units',
      remedy: NO_ANSWER,
      look: (signal: AbortSignal) => lookAtUnit(manager, unit, signal),
    })),
    {
      subject: 'registry',
      remedy: NO_ANSWER,
      look: async (signal) => [await lookAtSocket(manager, listen, signal)],
    },
  ];
}

async function lookAtUnit(manager: UnitProperties, unit: string, signal: AbortSignal): Promise<readonly Finding[]> {
  const { ok, warning, fault } = findingsOn('units');
  const property = (name: string) => manager.unitProperty(unit, 'Unit', name, signal);
  const [load, state, file, isStale] = await Promise.all(
    ['LoadState', 'ActiveState', 'UnitFileState', 'NeedDaemonReload'].map(property),
  );
  if (load === 'masked') return [warning(`${unit} is masked`, `run systemctl unmask ${unit}`)];
  if (load !== 'loaded') return [fault(`${unit} is not installed`, "run the archive's install.sh again")];
  const stale = isStale === true ? [warning(`${unit} changed on disk`, 'run systemctl daemon-reload')] : [];
  if (file !== 'enabled') return [...stale, warning(`${unit} does not start at boot`, `run systemctl enable ${unit}`)];
  const isMeantToRun = unit !== 'stickpin-clear-mirrors.service';
  if (isMeantToRun && state !== 'active') {
    return [
      ...stale,
      fault(`${unit} is ${state}`, `run systemctl start ${unit}; journalctl -u ${unit} tells why it does not run`),
    ];
  }
  return [...stale, ok(isMeantToRun ? `${unit} runs` : `${unit} runs at boot`)];
}

async function lookAtSocket(manager: UnitProperties, listen: string, signal: AbortSignal): Promise<Finding> {
  const { ok, warning, fault } = findingsOn('registry');
  const value = await manager.unitProperty('stickpin-registry.socket', 'Socket', 'Listen', signal);
  const addresses = (Array.isArray(value) ? value : []).map(([, address]: readonly unknown[]) => String(address));
  if (addresses.length === 0) return fault('no socket is held for the registry', "run the archive's install.sh again");
  if (addresses.includes(listen)) return ok(`the registry listens on ${listen}`);
  return warning(
    `the registry listens on ${addresses.join(', ')}, and registry.listen = "${listen}" is without effect`,
    `set ListenStream= by systemctl edit stickpin-registry.socket (an empty one first), then run systemctl restart stickpin-registry.socket stickpin`,
  );
}
