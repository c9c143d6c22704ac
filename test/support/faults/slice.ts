import { execFileSync } from 'node:child_process';
import { program } from '../requirements.ts';

/** Says which slice it is. */
export const git = program('git', 'apt-get install git');

/**
 * The part of many points that this run tests: every n-th one, so that it has about `size` of them,
 * or `STICKPIN_TEST_FAULTS` times as many. As many commits in a row as there are slices test all
 * points. `STICKPIN_TEST_SLICE=i/n` says which slice it is; `0/1` is all.
 */
export function slice<T>(what: string, points: readonly T[], size: number): readonly T[] {
  const times = Number(process.env.STICKPIN_TEST_FAULTS ?? 1);
  const [turn = 0, count = 1] = sliceOf(Math.ceil(points.length / size / times));
  const chosen = points.filter((_point, at) => at % count === turn % count);
  process.stderr.write(`${what}: ${chosen.length} of ${points.length}, STICKPIN_TEST_SLICE=${turn % count}/${count}\n`);
  return chosen;
}

function sliceOf(slices: number): readonly number[] {
  const { STICKPIN_TEST_SLICE: given } = process.env;
  if (given !== undefined) return given.split('/').map(Number);
  return [Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })), slices];
}
