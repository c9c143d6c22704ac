import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  arrivedAt,
  chooseNext,
  isTarget,
  routeOf,
  type StreamPath,
} from '../../../../src/domain/activation/stream-path.ts';
import { type PathSpec, pathOf } from '../../../support/daemon/path-scene.ts';

/**
 * Up to 8 releases `1.N.0`, of which some are barriers, dead ends, denied, or tied to the one
 * before.
 */
const specs: fc.Arbitrary<PathSpec> = fc
  .array(
    fc.record({
      barrier: fc.boolean(),
      deadend: fc.boolean(),
      denied: fc.boolean(),
      was: fc.boolean(),
      late: fc.boolean(),
      end: fc.option(fc.integer({ min: 900, max: 1_100 })),
      from: fc.option(fc.integer({ min: 0, max: 8 })),
    }),
    { maxLength: 8 },
  )
  .chain((rows) =>
    fc.record({
      at: fc.integer({ min: -1, max: 8 }),
      isProven: fc.boolean(),
      allowDowngrade: fc.boolean(),
      rows: fc.constant(rows),
    }),
  )
  .map(({ at, isProven, allowDowngrade, rows }) => ({
    ...(at >= 0 && { at: `1.${at}.0${isProven ? '' : '?'}` }),
    has: rows.map(({ denied, was, late, end, from }, index) =>
      [
        `1.${index}.0`,
        ...(denied ? ['denied'] : []),
        ...(was ? ['was'] : []),
        ...(late ? ['late'] : []),
        ...(end === null ? [] : [`end=${end}`]),
        ...(from === null ? [] : [`from=>=1.${from}.0`]),
      ].join(' '),
    ),
    barriers: rows.flatMap(({ barrier }, index) => (barrier ? [`1.${index}.0`] : [])),
    deadends: rows.flatMap(({ deadend }, index) => (deadend ? [`1.${index}.0`] : [])),
    over: { allowDowngrade },
  }));

const minorOf = (version: string) => Number(version.split('.')[1]);

/**
 * The edges as Fedora CoreOS' graph builder would draw them, one after the other from the text of
 * the rules, over the minor numbers of the versions.
 */
function slowTargets(path: StreamPath): readonly string[] {
  const barriers = [...path.milestones].filter(([, { isBarrier }]) => isBarrier).map(([version]) => minorOf(version));
  const targets: string[] = [];
  for (const { version, from, endOfLife, isDenied, wasActivated, isLate } of path.releases) {
    if (wasActivated || isDenied || (endOfLife !== undefined && endOfLife <= path.time)) continue;
    const there = minorOf(version);
    const isBack = path.releases.some((other) => other.wasActivated && minorOf(other.version) > there);
    if (isBack && !(path.allowDowngrade && isLate)) continue;
    if (path.position === undefined) {
      targets.push(version);
      continue;
    }
    const here = minorOf(path.position.version);
    if (here === there) {
      targets.push(version);
      continue;
    }
    if (path.milestones.get(path.position.version)?.isDeadEnd) continue;
    if (from !== undefined && here < minorOf(from.slice(2))) continue;
    if (there < here) {
      if (path.allowDowngrade && isLate) targets.push(version);
      continue;
    }
    let isOpen = true;
    for (let step = here; step < there; step += 1) {
      const isPassed = step === here && path.position.isProven;
      if (barriers.includes(step) && !isPassed) isOpen = false;
    }
    if (isOpen) targets.push(version);
  }
  return targets;
}

describe('the choice of the next release', () => {
  it('equals the result of a slow search through all edges', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        const path = pathOf(spec);
        const targets = slowTargets(path);
        expect(path.releases.filter((one) => isTarget(path, one)).map(({ version }) => version)).toEqual(targets);
        expect(chooseNext(path)?.version).toBe(targets.at(-1));
      }),
      { numRuns: 2_000 },
    );
  });

  it('never leads in a circle, and each step after the first has a higher sequence', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        const path = pathOf(spec);
        const route = routeOf(path);
        expect(new Set(route.map(({ id }) => id)).size).toBe(route.length);
        const sequences = route.map(({ sequence }) => sequence);
        expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
        const start = path.position?.sequence;
        const first = sequences[0];
        if (start !== undefined && first !== undefined && !path.allowDowngrade)
          expect(first).toBeGreaterThanOrEqual(start);
      }),
    );
  });

  it('offers nothing more after the activation of a release that was not offered', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        let path = pathOf(spec);
        const seen = new Set<string>();
        for (let next = chooseNext(path); next !== undefined; next = chooseNext(path)) {
          expect(seen.has(next.id)).toBe(false);
          seen.add(next.id);
          path = arrivedAt(path, next);
        }
        expect(seen.size).toBe(routeOf(pathOf(spec)).length);
      }),
    );
  });

  it('never allows more when a release is found to be a barrier or a dead end', () => {
    const kinds = fc.constantFrom('isBarrier' as const, 'isDeadEnd' as const);
    fc.assert(
      fc.property(specs, fc.integer({ min: 0, max: 8 }), kinds, (spec, minor, kind) => {
        const path = pathOf(spec);
        const version = `1.${minor}.0`;
        const known = path.milestones.get(version) ?? { isBarrier: false, isDeadEnd: false, reason: '', saidBy: '' };
        const after = { ...path, milestones: new Map([...path.milestones, [version, { ...known, [kind]: true }]]) };
        const allowed = path.releases.filter((release) => isTarget(path, release));
        const still = after.releases.filter((release) => isTarget(after, release));
        expect(allowed).toEqual(expect.arrayContaining(still));
      }),
    );
  });

  it('does not depend on the order of the advisories about barriers and dead ends', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        const path = pathOf(spec);
        const turned = { ...path, milestones: new Map([...path.milestones].reverse()) };
        expect(routeOf(turned)).toEqual(routeOf(path));
      }),
    );
  });
});
