import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { HOOK_NAMES, type HookName } from '../domain/state/hook.ts';
import { type Check, type ExaminedNode, SYSTEMD_IS_SILENT, type SystemServices } from './check.ts';

/**
 * Whether the units of hooks are there, and are of a kind of which the end can be waited for. A
 * node without hooks has no finding.
 */
export function checkHooks({ services, settings }: Pick<ExaminedNode, 'services' | 'settings'>): readonly Check[] {
  if (services === undefined) return [];
  return HOOK_NAMES.filter((hook) => settings.hooks[hook] !== '').map((hook) => ({
    subject: 'hooks',
    remedy: SYSTEMD_IS_SILENT,
    look: (signal: AbortSignal) => lookAtHook(services, hook, settings.hooks[hook], signal),
  }));
}

async function lookAtHook(
  services: SystemServices,
  hook: HookName,
  unit: string,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { ok, warning, fault } = findingsOn('hooks');
  const what = `hook ${hook}: ${unit}`;
  const of = (iface: string, name: string) => services.unitProperty(unit, iface, name, signal);
  const load = await of('Unit', 'LoadState');
  if (load === undefined || load === 'not-found') {
    return [fault(`${what} does not exist`, 'install the unit, or correct the settings in [hooks]')];
  }
  if (load !== 'loaded') return [fault(`${what} is ${load}`, `look at it with 'systemctl status ${unit}'`)];
  const [type, remains, result] = await Promise.all([
    of('Service', 'Type'),
    of('Service', 'RemainAfterExit'),
    of('Service', 'Result'),
  ]);
  if (type !== 'oneshot') {
    const why = `${what} has Type=${type}: stickpin waits for its start and not for its end`;
    return [warning(why, 'give it Type=oneshot')];
  }
  if (remains === true) {
    const why = `${what} has RemainAfterExit=yes: it stays active, and can't be started a second time`;
    return [fault(why, 'take RemainAfterExit=yes out of it')];
  }
  if (result !== 'success') {
    return [warning(`${what} failed when it ran last (${result})`, `look at it with 'journalctl -u ${unit}'`)];
  }
  return [ok(`${what} can be started`)];
}
