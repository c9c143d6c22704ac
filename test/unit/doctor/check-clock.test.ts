import { describe, expect, it } from 'vitest';
import { checkClock } from '../../../src/doctor/checks.ts';
import { findingsOf } from '../../support/examined-node.ts';

const BUILT_AT = Date.parse('2026-02-01T00:00:00Z');

function findingsAt(time: string, isSynchronised: boolean | undefined, hasBus = true) {
  const services = { unitProperty: async () => undefined, isClockSynchronized: async () => isSynchronised };
  const clock = { now: Date.parse(time), builtAt: BUILT_AT };
  return findingsOf(checkClock, { services: hasBus ? services : undefined, clock });
}

describe('the check of the clock', () => {
  it('is fine with a clock that is synchronised', async () => {
    expect(await findingsAt('2026-03-01T00:00:00Z', true)).toMatchObject([{ verdict: 'ok' }]);
  });

  it('warns of one that is not', async () => {
    expect(await findingsAt('2026-03-01T00:00:00Z', false)).toMatchObject([
      { verdict: 'warning', remedy: expect.stringContaining('while its time is about right') },
    ]);
    expect(await findingsAt('2026-03-01T00:00:00Z', undefined, false)).toEqual([]);
  });

  it.each([true, false])('is a fault before the program was built, with a bus: %s', async (hasBus) => {
    const [only, ...others] = await findingsAt('1970-01-01T00:01:00Z', false, hasBus);
    expect(others).toEqual([]);
    expect(only).toMatchObject({ verdict: 'fault', message: expect.stringContaining('1970-01-01') });
    expect(JSON.stringify(only)).not.toContain('may stay');
  });
});
