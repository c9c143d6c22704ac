import { describe, expect, it } from 'vitest';
import { checkHooks } from '../../../src/doctor/check-units.ts';
import { linesOf } from '../../support/examined-node.ts';

const UNIT = 'before.service';
const GOOD = { LoadState: 'loaded', Type: 'oneshot', RemainAfterExit: false, Result: 'success' };

function found(unit: Readonly<Record<string, unknown>>, hooks = { 'before-activate': UNIT }) {
  const services = {
    unitProperty: async (name: string, _iface: string, property: string) =>
      name === UNIT ? unit[property] : undefined,
    isClockSynchronized: async () => true,
  };
  return linesOf(checkHooks, { services, settings: { hooks } });
}

describe('the check of hooks', () => {
  it('reports nothing on a node without hooks', async () => {
    expect(await found({}, { 'before-activate': '' })).toEqual([]);
  });

  it.each([
    [{}, `ok: hook before-activate: ${UNIT} can be started`],
    [{ LoadState: 'not-found' }, `fault: hook before-activate: ${UNIT} does not exist`],
    [{ LoadState: undefined }, `fault: hook before-activate: ${UNIT} does not exist`],
    [{ LoadState: 'masked' }, `fault: hook before-activate: ${UNIT} is masked`],
    [
      { Type: 'simple' },
      `warning: hook before-activate: ${UNIT} has Type=simple: stickpin waits for its start and not for its end`,
    ],
    [
      { RemainAfterExit: true },
      `fault: hook before-activate: ${UNIT} has RemainAfterExit=yes: it stays active, and can't be started a second time`,
    ],
    [{ Result: 'exit-code' }, `warning: hook before-activate: ${UNIT} failed when it ran last (exit-code)`],
  ])('reports a unit with %j: %s', async (over, said) => {
    expect(await found({ ...GOOD, ...over })).toEqual([said]);
  });
});
