import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashedWariness, parseMachineId, warinessOf } from '../../../../src/domain/model/rollout.ts';

const ID = '0123456789abcdef0123456789abcdef';

describe('the wariness of a node', () => {
  // These vectors are in docs/bundle-format.md, for other programs.
  it.each([
    [ID, 'ocp', 0.896828278181118],
    [ID, 'tools', 0.25893196030852034],
    ['f1e2d3c4b5a69788796a5b4c3d2e1f00', 'ocp', 0.7076151919948676],
    ['ffffffffffffffffffffffffffffffff', 'customer-a', 0.38796554406522926],
  ])('machine %s, stream %s: %d', (machineId, stream, wariness) => {
    expect(hashedWariness(machineId, stream)).toBe(wariness);
    expect(warinessOf(stream, undefined, machineId)).toEqual({ value: wariness, source: 'machine-id' });
  });

  it('is the value of the setting, also 0 and 1', () => {
    for (const value of [0, 0.5, 1]) expect(warinessOf('ocp', value, ID)).toEqual({ value, source: 'setting' });
    expect(warinessOf('ocp', 0.5, undefined)).toEqual({ value: 0.5, source: 'setting' });
  });

  it('is 1, that of the last node, without a setting and a machine id', () => {
    expect(warinessOf('ocp', undefined, undefined)).toEqual({ value: 1, source: 'none' });
  });

  it('is spread evenly from 1e-6 to 1', () => {
    const ids = Array.from({ length: 4_000 }, (_, at) => at.toString(16).padStart(32, '0'));
    const values = ids.map((id) => hashedWariness(id, 'ocp'));
    for (const limit of [0.1, 0.5, 0.9]) {
      const share = values.filter((value) => value <= limit).length / values.length;
      expect(Math.abs(share - limit)).toBeLessThan(0.03);
    }
    fc.assert(
      fc.property(fc.string(), fc.string(), (id, stream) => {
        const value = hashedWariness(id, stream);
        expect(value >= 1e-6 && value <= 1).toBe(true);
      }),
    );
  });
});

describe('the content of /etc/machine-id', () => {
  it.each([
    [`${ID}\n`, ID],
    [ID, ID],
    ['uninitialized\n', undefined],
    ['', undefined],
    ['\n', undefined],
    [`${'0'.repeat(32)}\n`, undefined],
    [ID.toUpperCase(), undefined],
    [`${ID}0`, undefined],
    [ID.slice(1), undefined],
    [`${ID}\n${ID}\n`, undefined],
  ])('%j is %s', (content, machineId) => {
    expect(parseMachineId(content)).toBe(machineId);
  });
});
