import { expect, it } from 'vitest';
import { checkSources } from '../../../src/doctor/check-sources.ts';
import type { FleetView } from '../../../src/domain/fleet/node-status.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { linesOf } from '../../support/examined-node.ts';

const NAME = 'registry.example.com/bundles/ocp:4.13';
const OFFERED = {
  bundleId: digestOf('x'),
  name: 'ocp',
  version: '4.13.7',
  sequence: 1,
  isWhole: true,
  revision: 'x',
};
const peer = { name: NAME, address: 'registry.example.com', bundles: [] };

function look(view: () => FleetView['peers'], { unit = 'active', isSet = true } = {}) {
  const edge = { reference: NAME, every: 1, authfile: undefined, ca: undefined, rate: 1, windows: [] };
  return linesOf(checkSources, {
    settings: { sources: isSet ? { edge } : {} },
    services: { unitProperty: async () => unit, isClockSynchronized: async () => true },
    sources: async () => ({ self: 'this node', nodes: [], peers: view() }),
  });
}

it('names what each registry has, and what is wrong', async () => {
  expect(await look(() => [{ ...peer, bundles: [OFFERED] }])).toEqual([
    'ok: stickpin-sources.service runs',
    `ok: ${NAME} is ocp 4.13.7`,
  ]);
  const [, ...lines] = await look(() => [{ ...peer, trouble: `${NAME}: it answers 401` }, peer]);
  expect(lines).toEqual([`warning: ${NAME}: it answers 401`, `warning: ${NAME} was not read yet`]);
});

it('notices a unit that does not run, and a process that does not answer', async () => {
  const silent = () => {
    throw new Error('it is away');
  };
  expect(await look(silent, { unit: 'inactive' })).toEqual([
    'fault: the settings name a registry in [sources.NAME], and stickpin-sources.service is inactive: nothing comes from it',
    'fault: nothing is known of registries: it is away',
  ]);
});

it('is silent where no registry is named', async () => {
  expect(await look(() => [], { isSet: false })).toEqual([]);
});
