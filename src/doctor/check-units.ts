import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { type Check, type ExaminedNode, INSTALL_AGAIN, SYSTEMD_IS_SILENT, type SystemServices } from './check.ts';

const UNITS = ['stickpin.service', 'stickpin-registry.socket', 'stickpin-clear-mirrors.service'] as const;

/** Whether our units are loaded, enabled and running. */
export function checkUnits({ services }: Pick<ExaminedNode, 'services'>): readonly Check[] {
  if (services === undefined) return [noBus];
  // Each check has a separate signal, because Node.js warns on stderr about more than ten
  // listeners.
  return UNITS.map((unit) => ({
    subject: 'units',
    remedy: SYSTEMD_IS_SILENT,
    look: (signal: AbortSignal) => lookAtUnit(services, unit, signal),
  }));
}

const noBus: Check = {
  subject: 'units',
  remedy: "run 'systemctl start dbus'",
  look: async () => [
    findingsOn('units').fault(
      'the system bus does not answer',
      "run 'systemctl start dbus', then 'stickpin doctor' again",
    ),
  ],
};

async function lookAtUnit(services: SystemServices, unit: string, signal: AbortSignal): Promise<readonly Finding[]> {
  const { ok, warning, fault } = findingsOn('units');
  const property = (name: string) => services.unitProperty(unit, 'Unit', name, signal);
  const [load, state, file, isStale] = await Promise.all(
    ['LoadState', 'ActiveState', 'UnitFileState', 'NeedDaemonReload'].map(property),
  );
  if (load === 'masked')
    return [warning(`${unit} is masked`, `run systemctl unmask ${unit}, then systemctl start ${unit}`)];
  if (load !== 'loaded') return [fault(`${unit} is not installed`, INSTALL_AGAIN)];
  const stale = isStale === true ? [warning(`${unit} changed on disk`, 'run systemctl daemon-reload')] : [];
  if (file !== 'enabled') return [...stale, warning(`${unit} does not start at boot`, `run systemctl enable ${unit}`)];
  if (state !== 'active') {
    return [
      ...stale,
      fault(`${unit} is ${state}`, `run systemctl start ${unit}; journalctl -u ${unit} tells why it does not run`),
    ];
  }
  return [...stale, ok(`${unit} runs`)];
}
