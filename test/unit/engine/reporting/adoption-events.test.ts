import { describe, expect, it } from 'vitest';
import { warningEvents } from '../../../../src/engine/reporting/events.ts';
import { verified } from '../../../support/daemon/scenario.ts';

const warned = (warnings: readonly string[]) => {
  const bundle = verified({ version: '4.13.7', images: { etcd: ['os'] } });
  return warningEvents({ ...bundle, payload: { ...bundle.payload, warnings } }).map(({ message }) => message);
};

describe('warnings that were signed with a bundle', () => {
  it('have one event each', () => {
    expect(warned([])).toEqual([]);
    expect(warned(['nginx:1 is not in the bundle'])).toEqual([
      'ocp 4.13.7: its maker was warned: nginx:1 is not in the bundle',
    ]);
  });

  it('do not fill the journal', () => {
    const told = warned(Array.from({ length: 200 }, (_, at) => `n${at} is not in the bundle`));
    expect(told).toHaveLength(11);
    expect(told.at(-1)).toBe("ocp 4.13.7: its maker had 190 more warnings; 'stickpin show ocp@4.13.7' has all");
  });
});
