import { describe, expect, it } from 'vitest';
import { checkRegistrySocket, checkUnits } from '../../../src/doctor/check-units.ts';
import { linesOf } from '../../support/examined-node.ts';

type Properties = Readonly<Record<string, unknown>>;
const RUNS: Properties = {
  LoadState: 'loaded',
  ActiveState: 'active',
  UnitFileState: 'enabled',
  NeedDaemonReload: false,
};
const LISTEN = [['Stream', '127.0.0.1:5317']];

const units = (over: Readonly<Record<string, Properties>> = {}) => ({
  'stickpin.service': RUNS,
  'stickpin-registry.socket': { ...RUNS, Listen: LISTEN },
  'stickpin-clear-mirrors.service': RUNS,
  ...over,
});

type UnitProperty = (unit: string, iface: string, name: string, signal: AbortSignal) => Promise<unknown>;
const linesOver = (unitProperty: UnitProperty, listen = '127.0.0.1:5317') =>
  linesOf((node) => [...checkUnits(node), ...checkRegistrySocket(node)], {
    services: { unitProperty, isClockSynchronized: async () => true },
    settings: { registry: { listen } },
  });

async function troubles(known: Readonly<Record<string, Properties>>, listen?: string): Promise<string[]> {
  const lines = await linesOver(async (unit, _iface, name) => known[unit]?.[name], listen);
  return lines.filter((line) => !line.startsWith('ok: '));
}

describe('the checks of units and of the registry socket', () => {
  it('reports nothing on a node as it is installed', async () => {
    expect(await troubles(units())).toEqual([]);
  });

  it.each<[string, Properties, string]>([
    ['does not run', { ...RUNS, ActiveState: 'failed' }, 'fault: stickpin.service is failed'],
    ['is masked', { ...RUNS, LoadState: 'masked' }, 'warning: stickpin.service is masked'],
    ['is not enabled', { ...RUNS, UnitFileState: 'disabled' }, 'warning: stickpin.service does not start at boot'],
    ['changed on disk', { ...RUNS, NeedDaemonReload: true }, 'warning: stickpin.service changed on disk'],
    ['is not installed', { LoadState: 'not-found' }, 'fault: stickpin.service is not installed'],
    ['is unknown', {}, 'fault: stickpin.service is not installed'],
  ])('reports a service that %s', async (_what, properties, said) => {
    expect(await troubles(units({ 'stickpin.service': properties }))).toEqual([said]);
  });

  it('reports a socket that is masked once, and one that is not there', async () => {
    const masked = { ...RUNS, LoadState: 'masked' };
    expect(await troubles(units({ 'stickpin-registry.socket': masked }))).toEqual([
      'warning: stickpin-registry.socket is masked',
    ]);
    expect(await troubles(units({ 'stickpin-registry.socket': { LoadState: 'not-found' } }))).toEqual([
      'fault: stickpin-registry.socket is not installed',
      'fault: no socket is held for the registry',
    ]);
  });

  it.each(['failed', 'inactive'])('does not say that the registry listens while its socket is %s', async (state) => {
    const socket = { ...RUNS, ActiveState: state, UnitFileState: 'disabled', Listen: LISTEN };
    expect(await troubles(units({ 'stickpin-registry.socket': socket }))).toEqual([
      'warning: stickpin-registry.socket does not start at boot',
      `fault: nothing listens on 127.0.0.1:5317: stickpin-registry.socket is ${state}`,
    ]);
  });

  it('has at most ten calls at a time wait on one signal, because Node.js warns on stderr about more', async () => {
    const waiting = new Map<AbortSignal, number>();
    const unitProperty = async (unit: string, _iface: string, name: string, signal: AbortSignal) => {
      waiting.set(signal, (waiting.get(signal) ?? 0) + 1);
      return units()[unit as 'stickpin.service'][name];
    };
    await linesOver(unitProperty);
    expect(Math.max(...waiting.values())).toBeLessThanOrEqual(10);
  });

  it('reports settings that name another port than the socket', async () => {
    expect(await troubles(units(), '127.0.0.1:6000')).toEqual([
      'warning: the registry listens on 127.0.0.1:5317, and registry.listen = "127.0.0.1:6000" is without effect',
    ]);
  });
});
