import type { Injection, SystemCall } from './system-calls.ts';

/** What happens at a call. `KILL` comes before it. */
export const FAULTS = ['EIO', 'ENOSPC', 'EROFS', 'EINTR', 'KILL'] as const;
export type Fault = (typeof FAULTS)[number];

/** The k-th call of this name of a thread. */
export interface Point {
  readonly call: string;
  readonly at: number;
  readonly fault: Fault;
}

/** Also used to load modules, and between threads: they fail on files that are named. */
const SHARED = /^(?:openat|writev?)$/;
/** All calls fail on files that are named: nothing is recorded of others. */
export const NAMED = /./;
/** Which can't fail so, or whose failure is no fault of a disk. */
const LEFT_OUT = /^(?:chmod|fchmod|open|sync)$/;
/** Parts of names that differ from run to run. */
const RANDOM = /\.[0-9a-f]{8}$/;

/**
 * All calls of a run on files below a folder, with each fault. @param shared calls that are limited
 * to named files
 * @returns `paths` to which calls that threads share are limited
 */
export function pointsOf(calls: readonly SystemCall[], folder: string, shared = SHARED) {
  const isBelow = (path: string | undefined) => path?.startsWith(`${folder}/`) === true || path === folder;
  const below = calls.filter(({ paths }) => paths.some(isBelow));
  const paths = [...new Set(below.flatMap((call) => call.paths))].filter(isBelow).map(String);
  const known = paths.filter((path) => !RANDOM.test(path));
  const found = new Map<string, Omit<Point, 'fault'>>();
  const counts = new Map<string, number>();
  for (const call of calls) {
    const { name, thread } = call;
    const isHere = call.paths.some(isBelow);
    if (shared.test(name) && !call.paths.some((path) => path !== undefined && known.includes(path))) continue;
    const at = (counts.get(`${thread} ${name}`) ?? 0) + 1;
    counts.set(`${thread} ${name}`, at);
    if (isHere && !LEFT_OUT.test(name)) found.set(`${name} ${at}`, { call: name, at });
  }
  const points = FAULTS.flatMap((fault) => [...found.values()].map((point): Point => ({ ...point, fault })));
  return { points, paths: known };
}

/** For `runTraced()`, with `paths` only calls on these are recorded. */
export function injectionOf({ call, at, fault }: Point, paths: readonly string[], shared = SHARED): Injection {
  const inject = `${call}:${fault === 'KILL' ? 'signal=KILL' : `error=${fault}`}:when=${at}`;
  return { inject, ...(shared.test(call) && { paths }) };
}
