import { expect, it } from 'vitest';
import { searchOf } from '../../../../src/domain/fleet/turn.ts';

const HOUR = 3_600_000;

it.each([
  [0, HOUR, 'new'],
  [59_999, HOUR, 'new'],
  [60_000, HOUR, 'short'],
  [HOUR - 1, HOUR, 'short'],
  [HOUR, HOUR, 'long'],
  [1_000, 1_000, 'long'],
  [0, 0, 'long'],
] as const)('after %i ms, with fleet.absent %i ms, is %s', (searchedMs, absentMs, search) => {
  expect(searchOf(searchedMs, absentMs)).toBe(search);
});
