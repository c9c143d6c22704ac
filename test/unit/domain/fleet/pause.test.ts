import { describe, expect, it } from 'vitest';
import type { FleetView } from '../../../../src/domain/fleet/node-status.ts';
import {
  endOf,
  heardPauses,
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
const viewOf = (nodes: Readonly<Record<string, readonly SharedPause[]>>): FleetView => ({
  self: 'self',
  peers: [],
  nodes: Object.entries(nodes).map(([name, pauses]) => ({
    name,
    isAbsent: false,
    status: { version: 1, releases: [], pauses },
  })),
});
const lift = { node: 'n2', by: 'uid 1000' };
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
  it('is kept with the node that said it, and given on; not twice', () => {
    const one = said();
    const known = heardPauses([], viewOf({ n2: [one], n3: [one] }), clock);
    expect(known).toEqual([{ ...one, from: 'n2', heard }]);
    expect(heardPauses(known, viewOf({ n2: [one] }), clock)).toBe(known);
    expect(heardPauses(known, undefined, clock)).toBe(known);
    expect(known.some(isSaidHere)).toBe(false);
  });

  it('ends a pause with a lift from any node, also when the pause comes later', () => {
    const one = said();
    const lifted = { ...one, lifted: lift };
    const known = heardPauses([one], viewOf({ n2: [lifted] }), clock);
    expect(known).toEqual([{ ...lifted, liftedFrom: 'n2' }]);
    expect(heardPauses(known, viewOf({ n1: [one] }), clock)).toBe(known);
    expect(heardPauses([], viewOf({ n2: [lifted], n1: [one] }), clock)).toEqual([
      { ...lifted, from: 'n2', heard, liftedFrom: 'n2' },
    ]);
  });

  it('is forgotten when it ends, and not taken again', () => {
    const one = said();
    const after = { ...clock, now: NOON + HOUR };
    expect(heardPauses([one], viewOf({ n1: [one] }), after)).toEqual([]);
    expect(heardPauses([], viewOf({ n1: [one] }), { ...clock, now: NOON + HOUR - 30_000 })).toEqual([]);
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

  it('has a place for each node, however many pauses of others and lifts one of them gives on', () => {
    const flood = (from: string) =>
      Array.from({ length: 8 }, (_, at) => ({ ...said({ node: `x${at}`, why: `${from} ${at}` }), lifted: lift }));
    const givers = Array.from({ length: 12 }, (_, at) => `g${at}`);
    const full = heardPauses([], viewOf(Object.fromEntries(givers.map((one) => [one, flood(one)]))), clock);
    expect(full).toHaveLength(64);
    const own = said({ node: 'g0', why: 'of g0' });
    const known = heardPauses(full, viewOf({ g0: [...flood('g0'), own] }), clock);
    expect(known).toHaveLength(64);
    expect(pauseOf(release, known, clock)).toMatchObject({ id: own.id });
    expect(heardPauses(known, viewOf({ g0: [...flood('g0'), own] }), clock)).toBe(known);
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
