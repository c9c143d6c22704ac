import { describe, expect, it } from 'vitest';
import { CREATED_AHEAD_MS, clockFault } from '../../../../src/domain/adoption/floors.ts';

describe('a clock that can not be right', () => {
  it.each([
    ['is later than all', 20, 10, 15, undefined],
    ['shows just the time of the build', 10, 10, undefined, undefined],
    ['shows just the time of the newest bundle', 15, 10, 15, undefined],
    ['is before the build', 9, 10, undefined, { kind: 'before-build', least: 10 }],
    ['is before the build, and after the newest bundle', 9, 10, 5, { kind: 'before-build', least: 10 }],
    ['is before the newest bundle', 14, 10, 15, { kind: 'before-bundle', least: 15 }],
    ['is before both: the later one counts', 1, 10, 15, { kind: 'before-bundle', least: 15 }],
  ] as const)('%s', (_, now, builtAt, newestCreated, fault) => {
    expect(clockFault(now, builtAt, newestCreated)).toEqual(fault);
  });

  it.each([
    ['is before the newest bundle by no more than a day', 15 - CREATED_AHEAD_MS, 15, undefined],
    [
      'is before it by more than a day',
      14 - CREATED_AHEAD_MS,
      15,
      { kind: 'far-before-bundle', least: 15 - CREATED_AHEAD_MS },
    ],
  ] as const)('and is synchronised %s', (_, now, newestCreated, fault) => {
    expect(clockFault(now, -CREATED_AHEAD_MS, newestCreated, true)).toEqual(fault);
  });

  it('and is synchronised is before the build, whatever bundles say', () => {
    expect(clockFault(9, 10, 15, true)).toEqual({ kind: 'before-build', least: 10 });
  });
});
