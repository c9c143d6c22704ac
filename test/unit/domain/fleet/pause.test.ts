import { describe, expect, it } from 'vitest';
import type { FleetView } from '../../../../src/domain/fleet/node-status.ts';
import {
  endOf,
  heardPauses,
  isFirstHand,
  isPassedOn,
  isSaidHere,
  LONGEST_PAUSE_MS,
  newPause,
  type Pause,
  pauseOf,
  type SharedPause,
} from '../../../../src/domain/fleet/pause.ts';
import { NOON } from '../../../support/daemon/scenario.ts';

const HOUR = 3_600_000;
const clock = { now: NOON, clockSynchronised: true };
const release = { name: 'ocp', version: '4.13.7' };
const said = (over: Partial<Parameters<typeof newPause>[0]> = {}): Pause =>
  newPause({ name: 'ocp', node: 'n1', by: 'uid 0', why: 'no power', atMs: NOON, forMs: HOUR, ...over });
/** `cp` is of the control plane. */
const viewOf = (nodes: Readonly<Record<string, readonly SharedPause[]>>): FleetView => ({
  self: 'self',
  peers: [],
  nodes: Object.entries(nodes).map(([name, pauses]) => ({
    name,
    isAbsent: false,
    facts: { labels: name === 'cp' ? { 'node-role.kubernetes.io/control-plane': '' } : {} },
    status: { version: 1, releases: [], pauses },
  })),
});
const liftBy = (node: string) => ({ node, by: 'uid 1000' });
const lift = liftBy('n1');
const heard = { at: new Date(NOON).toISOString(), clockSynchronised: true };

describe('a pause', () => {
  it('holds the releases that it names until it ends', () => {
    const [all, one] = [said(), said({ version: '4.13.6' })];
    expect(pauseOf(release, [all, one], clock)).toBe(all);
    expect(pauseOf(release, [one], clock)).toBeUndefined();
    expect(pauseOf({ ...release, name: 'tools' }, [all], clock)).toBeUndefined();
    expect(pauseOf(release, [all], { ...clock, now: NOON + HOUR - 1 })).toBe(all);
    expect(pauseOf(release, [all], { ...clock, now: NOON + HOUR })).toBeUndefined();
    expect(pauseOf(release, [{ ...all, lifted: lift }], clock)).toBeUndefined();
  });

  it('lasts a week at most, whatever it says, and no time that is no time', () => {
    expect(endOf(said({ forMs: 100 * LONGEST_PAUSE_MS }))).toBe(NOON + LONGEST_PAUSE_MS);
    expect(pauseOf(release, [{ ...said(), until: '2026-99-99T00:00:00Z' }], clock)).toBeUndefined();
  });

  it('counts where the own clock is not synchronised and far behind, and not from the far future', () => {
    const later = said({ atMs: NOON + 30 * 24 * HOUR });
    expect(pauseOf(release, [later], clock)).toBeUndefined();
    expect(pauseOf(release, [later], { ...clock, clockSynchronised: false })).toBe(later);
  });
});

describe('what a node hears of pauses', () => {
  it('is kept with the node that brought it, not twice, and first-hand once its own node says it', () => {
    const one = said();
    const known = heardPauses([], viewOf({ n2: [one], n3: [one] }), clock);
    expect(known).toEqual([{ ...one, from: 'n2', heard }]);
    expect(known.map(isFirstHand)).toEqual([false]);
    expect(pauseOf(release, known, clock)).toBe(known[0]);
    expect(heardPauses(known, viewOf({ n2: [one] }), clock)).toBe(known);
    expect(heardPauses(known, undefined, clock)).toBe(known);
    const first = heardPauses(known, viewOf({ n1: [one] }), clock);
    expect(first).toEqual([{ ...one, from: 'n1', heard }]);
    expect(heardPauses(first, viewOf({ n2: [one] }), clock)).toBe(first);
  });

  it('is passed on where its own node said it, and from no node to the next', () => {
    const one = said();
    const [first, second] = [viewOf({ n1: [one] }), viewOf({ n2: [one] })].map((view) => heardPauses([], view, clock));
    expect([one, ...(first ?? []), ...(second ?? [])].map(isPassedOn)).toEqual([true, true, false]);
    expect([one, ...(first ?? [])].map(isSaidHere)).toEqual([true, false]);
    expect(isPassedOn({ ...one, from: 'n2', lifted: lift })).toBe(true);
  });

  it.each([
    ['its own node', 'n1'],
    ['a node of the control plane', 'cp'],
  ])('is lifted by %s, also before the pause comes', (_, by) => {
    const one = said();
    const lifted = { ...one, lifted: liftBy(by) };
    const known = heardPauses([one], viewOf({ [by]: [lifted] }), clock);
    expect(known).toEqual([{ ...lifted, liftedFrom: by }]);
    expect(heardPauses(known, viewOf({ n1: [one], n3: [one] }), clock)).toBe(known);
    const early = heardPauses([], viewOf({ [by]: [lifted], n3: [one] }), clock);
    expect(early).toEqual([{ ...lifted, from: by, heard, liftedFrom: by }]);
  });

  it.each(['n1', 'n2', 'cp'])('is not lifted by another node, though it names %s', (named) => {
    const one = said();
    const forged = { ...one, lifted: liftBy(named) };
    const known = heardPauses([one], viewOf({ n2: [forged] }), clock);
    expect(known).toEqual([one]);
    expect(heardPauses([], viewOf({ n2: [forged] }), clock)).toEqual([]);
    const both = heardPauses([], viewOf({ n1: [one], n2: [forged] }), clock);
    expect(pauseOf(release, both, clock)).toMatchObject({ id: one.id, from: 'n1' });
  });

  it('is not lifted with another pause of its id, which is kept beside it', () => {
    const one = said();
    const forged = { ...one, until: new Date(NOON + 2 * HOUR).toISOString(), by: 'a rollback' };
    const known = heardPauses([], viewOf({ n1: [{ ...one, lifted: lift }], n2: [forged] }), clock);
    expect(known.map(({ by, from, lifted }) => [by, from, lifted])).toEqual([
      ['uid 0', 'n1', lift],
      ['a rollback', 'n2', undefined],
    ]);
  });

  it('is no pause when it has ended, is forgotten an hour after it was heard, and not taken again', () => {
    const one = said({ forMs: HOUR / 2 });
    const at = (hours: number) => ({ ...clock, now: NOON + hours * HOUR });
    const known = heardPauses([], viewOf({ n1: [one] }), clock);
    expect(heardPauses(known, viewOf({ n1: [one] }), at(0.75))).toBe(known);
    expect(pauseOf(release, known, at(0.75))).toBeUndefined();
    expect(heardPauses(known, viewOf({ n1: [one] }), at(1))).toEqual([]);
    expect(heardPauses([], viewOf({ n1: [one] }), { ...clock, now: NOON + HOUR / 2 - 30_000 })).toEqual([]);
  });

  it('holds no longer than it says where the clock of its node is ahead, and once', () => {
    const ahead = said({ atMs: NOON + 20 * HOUR, forMs: 4 * HOUR });
    let known = heardPauses([], viewOf({ n1: [ahead] }), clock);
    expect(known.map(endOf)).toEqual([NOON + 4 * HOUR]);
    for (let hours = 0; hours < 24; hours += 1) {
      const then = { ...clock, now: NOON + hours * HOUR };
      known = heardPauses(known, viewOf(hours % 2 === 0 ? { n1: [ahead] } : {}), then);
      expect(pauseOf(release, known, then) === undefined).toBe(hours >= 4);
    }
    expect(heardPauses(known, viewOf({ n1: [ahead] }), { ...clock, now: NOON + 24 * HOUR })).toEqual([]);
  });

  it('stays lifted where the clock of its node is ahead', () => {
    const ahead = said({ atMs: NOON + 20 * HOUR, forMs: 4 * HOUR });
    const lifted = heardPauses([], viewOf({ n1: [ahead] }), clock).map((one) => ({ ...one, lifted: lift }));
    for (let hours = 0; hours < 48; hours += 1) {
      const then = { ...clock, now: NOON + hours * HOUR };
      expect(pauseOf(release, heardPauses(lifted, viewOf({ n1: [ahead] }), then), then)).toBeUndefined();
    }
  });

  it('counts anew once the own clock is right, and is nothing then if it is of the far future', () => {
    const early = { now: NOON - 24 * 400 * HOUR, clockSynchronised: false };
    const one = said();
    const known = heardPauses([], viewOf({ n1: [one] }), early);
    expect(known.map(endOf)).toEqual([early.now + HOUR]);
    const right = heardPauses(known, viewOf({ n1: [one] }), clock);
    expect(pauseOf(release, right, clock)).toMatchObject({ id: one.id, heard });
    const future = said({ atMs: NOON + 24 * 400 * HOUR });
    const taken = heardPauses([], viewOf({ n1: [future] }), { ...clock, clockSynchronised: false });
    expect(taken).toHaveLength(1);
    expect(heardPauses(taken, viewOf({ n1: [future] }), clock)).toEqual([]);
  });

  it('takes eight of a node in an hour, whatever else it passes on, lifts or lets end', () => {
    const soon = (why: string) => said({ node: 'n2', why, forMs: 2 * 60_000 });
    const made = Array.from({ length: 30 }, (_, at) => said({ node: `x${at}`, why: 'made up' }));
    let known = heardPauses([], viewOf({ n2: made }), clock);
    expect(known).toHaveLength(8);
    const seen = new Set<string>();
    for (let minutes = 0; minutes < 55; minutes += 1) {
      const then = { ...clock, now: NOON + minutes * 60_000 };
      const next = { ...soon(`${minutes}`), at: new Date(then.now).toISOString() };
      const until = new Date(then.now + 2 * 60_000).toISOString();
      known = heardPauses(known, viewOf({ n2: [{ ...next, until, lifted: liftBy('n2') }, ...made] }), then);
      for (const { id, node } of known) if (node === 'n2') seen.add(id);
      expect(known).toHaveLength(8);
    }
    expect(seen.size).toBe(8);
  });

  it('has a place for what a node says itself, though others passed on as much as fits', () => {
    const flood = (from: string) => Array.from({ length: 8 }, (_, at) => said({ node: `x${at}`, why: from }));
    const givers = Array.from({ length: 12 }, (_, at) => `g${at}`);
    const full = heardPauses([], viewOf(Object.fromEntries(givers.map((one) => [one, flood(one)]))), clock);
    expect(full).toHaveLength(64);
    const own = [said({ node: 'g0', why: 'of g0' }), said({ node: 'g11', why: 'of g11' })];
    const view = viewOf({ g0: [...flood('g0'), ...own.slice(0, 1)], g11: own.slice(1) });
    const known = heardPauses(full, view, clock);
    expect(known).toHaveLength(64);
    expect(own.map(({ id }) => known.filter((one) => one.id === id && isFirstHand(one)).length)).toEqual([1, 1]);
    expect(heardPauses(known, view, clock)).toBe(known);
  });

  it('is bounded for a node that says other things to each one, and nobody who makes up such takes the room', () => {
    const claimed = (why: string) => Array.from({ length: 8 }, (_, at) => said({ why: `${why} ${at}` }));
    const made = heardPauses([], viewOf({ n2: claimed('made up') }), clock);
    const real = said({ why: 'real' });
    const known = heardPauses(
      made,
      viewOf({ n3: [real], n4: claimed('a'), n5: claimed('b'), n6: claimed('c') }),
      clock,
    );
    expect(known.some(({ id }) => id === real.id)).toBe(true);
    expect(known).toHaveLength(16);
  });

  it.each(['at', 'until'] as const)('is nothing where %s is no time', (member) => {
    const ahead = said({ atMs: NOON + HOUR });
    expect(heardPauses([], viewOf({ n1: [{ ...ahead, [member]: '2026-99-99T00:00:00Z' }] }), clock)).toEqual([]);
  });

  it('is plain text, and no node adds more than eight', () => {
    const many = Array.from({ length: 30 }, (_, at) => said({ why: `${at}\u001b[2Jx` }));
    const known = heardPauses([], viewOf({ n2: many, n3: many.slice(20) }), clock);
    expect(known.map(({ from }) => from)).toEqual([...Array(8).fill('n2'), ...Array(8).fill('n3')]);
    expect(known[0]?.why).toBe('0 [2Jx');
    expect(heardPauses(known, viewOf({ n2: many.slice(8) }), clock)).toBe(known);
  });

  it('never makes a pause of this node of what another one claims', () => {
    const claimed = said({ node: 'self' });
    expect(heardPauses([], viewOf({ n2: [claimed] }), clock).filter(isSaidHere)).toEqual([]);
  });
});
