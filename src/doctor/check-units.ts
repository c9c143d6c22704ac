import { findingsOn } from '../domain/model/reason.ts';
import { HOOK_NAMES, type HookName } from '../domain/settings/hook-units.ts';
import {
  type Check,
  type ExaminedNode,
  type Found,
  INSTALL_AGAIN,
  SYSTEMD_IS_SILENT,
  type SystemServices,
} from './check.ts';

const UNITS = ['stickpin.service', 'stickpin-registry.socket', 'stickpin-clear-mirrors.service'] as const;

export function checkUnits({ services }: ExaminedNode): readonly Check[] {
  if (services === undefined) return [noBus];
  // Each check has a separate signal, because Node.js warns on stderr about more than ten
  // listeners.
  return UNITS.map((unit) => ({
    subject: 'units',
    remedy: SYSTEMD_IS_SILENT,
    run: (signal: AbortSignal) => judgeUnit(services, unit, signal),
  }));
}

const noBus: Check = {
  subject: 'units',
  remedy: "run 'systemctl start dbus'",
  run: async () =>
    findingsOn('units').fault(
      'the system bus does not answer',
      "run 'systemctl start dbus', then 'stickpin doctor' again",
    ),
};

async function judgeUnit(services: SystemServices, unit: string, signal: AbortSignal): Promise<Found> {
  const { ok, warning, fault } = findingsOn('units');
  const property = (name: string) => services.unitProperty(unit, 'Unit', name, signal);
  const [load, state, file, isStale] = await Promise.all(
    ['LoadState', 'ActiveState', 'UnitFileState', 'NeedDaemonReload'].map(property),
  );
  if (load === 'masked')
    return warning(`${unit} is masked`, `run systemctl unmask ${unit}, then systemctl start ${unit}`);
  if (load !== 'loaded') return fault(`${unit} is not installed`, INSTALL_AGAIN);
  const stale = isStale === true && warning(`${unit} changed on disk`, 'run systemctl daemon-reload');
  if (file !== 'enabled') return [stale, warning(`${unit} does not start at boot`, `run systemctl enable ${unit}`)];
  if (state !== 'active') {
    return [
      stale,
      fault(`${unit} is ${state}`, `run systemctl start ${unit}; journalctl -u ${unit} tells why it does not run`),
    ];
  }
  return [stale, ok(`${unit} runs`)];
}

/**
 * Whether the units of hooks exist, and have a kind whose end can be awaited. A node without hooks
 * has no finding.
 */
export function checkHooks({ services, settings }: ExaminedNode): readonly Check[] {
  if (services === undefined) return [];
  return HOOK_NAMES.filter((hook) => settings.hooks[hook] !== '').map((hook) => ({
    subject: 'hooks',
    remedy: SYSTEMD_IS_SILENT,
    run: (signal: AbortSignal) => judgeHook(services, hook, settings.hooks[hook], signal),
  }));
}

async function judgeHook(services: SystemServices, hook: HookName, unit: string, signal: AbortSignal): Promise<Found> {
  const { ok, warning, fault } = findingsOn('hooks');
  const what = `hook ${hook}: ${unit}`;
  const of = (iface: string, name: string) => services.unitProperty(unit, iface, name, signal);
  const load = await of('Unit', 'LoadState');
  if (load === undefined || load === 'not-found') {
    return fault(`${what} does not exist`, 'install the unit, or correct the settings in [hooks]');
  }
  if (load !== 'loaded') return fault(`${what} is ${load}`, `look at it with 'systemctl status ${unit}'`);
  const [type, remains, result] = await Promise.all([
    of('Service', 'Type'),
    of('Service', 'RemainAfterExit'),
    of('Service', 'Result'),
  ]);
  if (type !== 'oneshot') {
    const why = `${what} has Type=${type}: stickpin waits for its start and not for its end`;
    return warning(why, 'give it Type=oneshot');
  }
  if (remains === true) {
    const why = `${what} has RemainAfterExit=yes: it stays active, and can't be started a second time`;
    return fault(why, 'take RemainAfterExit=yes out of it');
  }
  if (result !== 'success') {
    return warning(`${what} failed when it ran last (${result})`, `look at it with 'journalctl -u ${unit}'`);
  }
  return ok(`${what} can be started`);
}

/**
 * Whether systemd listens on the registry's address in the settings (`127.0.0.1:5317`). `Listen` is
 * only the configuration of the socket, so its state is read too.
 */
export function checkRegistrySocket({ services, settings }: ExaminedNode): readonly Check[] {
  if (services === undefined) return [];
  const run = (signal: AbortSignal) => judgeSocket(services, settings.registry.listen, signal);
  return [{ subject: 'registry', remedy: SYSTEMD_IS_SILENT, run }];
}

async function judgeSocket(services: SystemServices, listen: string, signal: AbortSignal): Promise<Found> {
  const { ok, warning, fault } = findingsOn('registry');
  const property = (iface: string, name: string) =>
    services.unitProperty('stickpin-registry.socket', iface, name, signal);
  const [load, state, value] = await Promise.all([
    property('Unit', 'LoadState'),
    property('Unit', 'ActiveState'),
    property('Socket', 'Listen'),
  ]);
  // The check of the units says that it is, and what to do.
  if (load === 'masked') return undefined;
  const addresses = (Array.isArray(value) ? value : []).map(([, address]: readonly unknown[]) => String(address));
  if (addresses.length === 0) return fault('no socket is held for the registry', INSTALL_AGAIN);
  if (state !== 'active') {
    return fault(
      `nothing listens on ${listen}: stickpin-registry.socket is ${state}`,
      'run systemctl start stickpin-registry.socket; journalctl -u stickpin-registry.socket tells why it does not run',
    );
  }
  if (addresses.includes(listen)) return ok(`the registry listens on ${listen}`);
  return warning(
    `the registry listens on ${addresses.join(', ')}, and registry.listen = "${listen}" is without effect`,
    `set ListenStream= by systemctl edit stickpin-registry.socket (an empty one first), then run systemctl restart stickpin-registry.socket stickpin`,
  );
}
