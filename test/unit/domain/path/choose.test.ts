import { describe, expect, it } from 'vitest';
import { blocksOn, chooseNext, routeOf } from '../../../../src/domain/activation/stream-path.ts';
import { type PathSpec, pathOf } from '../../../support/daemon/path-scene.ts';

type Case = PathSpec & { readonly when: string; readonly next: string | undefined };

const cases = (rows: readonly Case[]) =>
  it.each(rows)('$when', ({ next, ...spec }) => {
    expect(chooseNext(pathOf(spec))?.version).toBe(next);
  });

describe('the next release: the highest that may be reached', () => {
  cases([
    { when: 'nothing is known', has: [], next: undefined },
    { when: 'nothing runs and one is here', has: ['1.0.0'], next: '1.0.0' },
    { when: 'nothing runs and several are here', has: ['1.0.0', '1.1.0', '1.2.0'], next: '1.2.0' },
    { when: 'only the present one is here', at: '1.0.0', has: ['1.0.0'], next: undefined },
    { when: 'a newer one is here', at: '1.0.0', has: ['1.0.0', '1.1.0'], next: '1.1.0' },
    { when: 'two newer ones are here', at: '1.0.0', has: ['1.0.0', '1.1.0', '1.2.0'], next: '1.2.0' },
    { when: 'an older one is here', at: '1.1.0', has: ['1.0.0', '1.1.0'], next: undefined },
    { when: 'the present one is not here', at: '1.0.0', has: ['1.1.0'], next: '1.1.0' },
    { when: 'the present one is unproven', at: '1.0.0?', has: ['1.0.0', '1.1.0'], next: '1.1.0' },
    { when: 'a pre-release is the only newer one', at: '1.0.0', has: ['1.0.0', '1.1.0-rc.1'], next: '1.1.0-rc.1' },
    { when: 'a release follows its pre-release', at: '1.1.0-rc.1', has: ['1.1.0-rc.1', '1.1.0'], next: '1.1.0' },
    { when: 'numbers count as numbers', at: '1.9.0', has: ['1.9.0', '1.10.0'], next: '1.10.0' },
    { when: 'a higher one was activated before', at: '1.0.0', has: ['1.0.0', '1.1.0', '1.2.0 was'], next: undefined },
    { when: 'all were activated before', at: '1.0.0', has: ['1.0.0', '1.1.0 was'], next: undefined },
    { when: 'two builds of one version are here', at: '1.0.0', has: ['1.0.0', '1.1.0', '1.1.0 seq=99'], next: '1.1.0' },
    {
      when: 'the stream has tags of three parts',
      at: '2.6.2-rev1',
      has: ['2.6.2-rev1', '2.6.2-rev2'],
      over: { scheme: 'three-tag' },
      next: '2.6.2-rev2',
    },
    {
      when: 'the build alone is newer',
      at: '2.6.2-rev1-b9',
      has: ['2.6.2-rev1-b9', '2.6.2-rev1-b10'],
      over: { scheme: 'three-tag' },
      next: '2.6.2-rev1-b10',
    },
  ]);
});

describe('the next release: rule from', () => {
  cases([
    { when: 'the present release is in the range', at: '1.2.0', has: ['1.2.0', '1.3.0 from=>=1.2.0'], next: '1.3.0' },
    { when: 'it is below the range', at: '1.1.0', has: ['1.1.0', '1.3.0 from=>=1.2.0'], next: undefined },
    { when: 'it is above the range', at: '1.2.5', has: ['1.2.5', '1.3.0 from=<1.2.0'], next: undefined },
    { when: 'it is at the open end', at: '1.2.0', has: ['1.2.0', '1.3.0 from=>=1.0.0_<1.2.0'], next: undefined },
    { when: 'it is at the closed end', at: '1.2.0', has: ['1.2.0', '1.3.0 from=>=1.0.0_<=1.2.0'], next: '1.3.0' },
    { when: 'one of two ranges has it', at: '1.0.5', has: ['1.0.5', '2.0.0 from=1.0.x_||_1.4.x'], next: '2.0.0' },
    {
      when: 'the highest does not take it and the one below does',
      at: '1.1.0',
      has: ['1.1.0', '1.2.0', '1.3.0 from=1.2.x'],
      next: '1.2.0',
    },
    { when: 'nothing is known to run', has: ['1.3.0 from=>=99.0.0'], next: '1.3.0' },
    {
      when: 'a pre-release runs that the range encloses',
      at: '1.2.0-rc.1',
      has: ['1.2.0-rc.1', '1.3.0 from=>=1.1.0'],
      next: '1.3.0',
    },
    {
      when: 'a pre-release runs before the range begins',
      at: '1.2.0-rc.1',
      has: ['1.2.0-rc.1', '1.3.0 from=>=1.2.0'],
      next: undefined,
    },
    { when: 'the settings say what runs', at: '1.2.3', has: ['1.3.0 from=1.2.x'], next: '1.3.0' },
    {
      when: 'the same version that the settings name',
      at: '1.3.0',
      has: ['1.3.0 from=1.2.x'],
      over: { position: { version: '1.3.0', isProven: true, source: 'setting' } },
      next: undefined,
    },
    {
      when: 'tags: any revision of an application',
      at: '2.6.1-rev7-b2',
      has: ['2.6.1-rev7-b2', '2.6.2-rev1 from=2.6.1'],
      over: { scheme: 'three-tag' },
      next: '2.6.2-rev1',
    },
    {
      when: 'tags: another revision',
      at: '2.6.1-rev1',
      has: ['2.6.1-rev1', '2.6.2-rev1 from=>=2.6.1-rev2'],
      over: { scheme: 'three-tag' },
      next: undefined,
    },
    {
      when: 'tags: the range can not be read',
      at: '2.6.1-rev1',
      has: ['2.6.1-rev1', '2.6.2-rev1 from=^2.6.0'],
      over: { scheme: 'three-tag' },
      next: undefined,
    },
  ]);
});

describe('the next release: barriers', () => {
  cases([
    {
      when: 'a barrier lies between',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      next: '1.3.0',
    },
    {
      when: 'the barrier runs and is proven',
      at: '1.3.0',
      has: ['1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      next: '1.4.0',
    },
    {
      when: 'the barrier runs and is not proven',
      at: '1.3.0?',
      has: ['1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      next: undefined,
    },
    {
      when: 'the barrier is behind',
      at: '1.4.0',
      has: ['1.3.0', '1.4.0', '1.5.0'],
      barriers: ['1.3.0'],
      next: '1.5.0',
    },
    {
      when: 'the barrier is behind, and what runs is not proven',
      at: '1.4.0?',
      has: ['1.3.0', '1.4.0', '1.5.0'],
      barriers: ['1.3.0'],
      next: '1.5.0',
    },
    {
      when: 'two barriers lie ahead',
      at: '1.0.0',
      has: ['1.0.0', '1.1.0', '1.2.0', '1.3.0'],
      barriers: ['1.1.0', '1.2.0'],
      next: '1.1.0',
    },
    {
      when: 'the second of two is next',
      at: '1.1.0',
      has: ['1.1.0', '1.2.0', '1.3.0'],
      barriers: ['1.1.0', '1.2.0'],
      next: '1.2.0',
    },
    {
      when: 'a release lies before the barrier',
      at: '1.0.0',
      has: ['1.0.0', '1.1.0', '1.2.0', '1.3.0'],
      barriers: ['1.2.0'],
      next: '1.2.0',
    },
    { when: 'the barrier is not here', at: '1.2.0', has: ['1.2.0', '1.4.0'], barriers: ['1.3.0'], next: undefined },
    {
      when: 'the barrier is not here and something before it is',
      at: '1.2.0',
      has: ['1.2.0', '1.2.5', '1.4.0'],
      barriers: ['1.3.0'],
      next: '1.2.5',
    },
    {
      when: 'the barrier is not here and lies behind',
      at: '1.4.0',
      has: ['1.4.0', '1.5.0'],
      barriers: ['1.3.0'],
      next: '1.5.0',
    },
    {
      when: 'the barrier is not here and lies beyond',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0'],
      barriers: ['1.4.0'],
      next: '1.3.0',
    },
    { when: 'nothing is known to run', has: ['1.3.0', '1.4.0'], barriers: ['1.3.0'], next: '1.4.0' },
    {
      when: 'the settings name a release before it',
      at: '1.2.9',
      has: ['1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      next: '1.3.0',
    },
    { when: 'the settings name the barrier', at: '1.3.0', has: ['1.4.0'], barriers: ['1.3.0'], next: '1.4.0' },
    {
      when: 'the barrier was rolled back',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0 denied', '1.4.0'],
      barriers: ['1.3.0'],
      next: undefined,
    },
    {
      when: 'the barrier was activated and left',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0 was', '1.4.0'],
      barriers: ['1.3.0'],
      next: undefined,
    },
    {
      when: 'the barrier does not take the present release',
      at: '1.0.0',
      has: ['1.0.0', '1.3.0 from=1.2.x', '1.4.0'],
      barriers: ['1.3.0'],
      next: undefined,
    },
    {
      when: 'the highest is a barrier itself',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      barriers: ['1.4.0'],
      next: '1.4.0',
    },
    {
      when: 'tags: a barrier between',
      at: '2.6.1-rev1',
      has: ['2.6.1-rev1', '2.6.1-rev2', '2.6.2-rev1'],
      barriers: ['2.6.1-rev2'],
      over: { scheme: 'three-tag' },
      next: '2.6.1-rev2',
    },
  ]);
});

describe('the next release: dead ends', () => {
  cases([
    { when: 'the present release is one', at: '1.2.0', has: ['1.2.0', '1.3.0'], deadends: ['1.2.0'], next: undefined },
    {
      when: 'an older release is one',
      at: '1.3.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      deadends: ['1.2.0'],
      next: '1.4.0',
    },
    {
      when: 'a newer release is one: it may be reached',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0'],
      deadends: ['1.3.0'],
      next: '1.3.0',
    },
    {
      when: 'one in between is one: it is passed over',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      deadends: ['1.3.0'],
      next: '1.4.0',
    },
    {
      when: 'the barrier in between is one: it leads no further',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      deadends: ['1.3.0'],
      barriers: ['1.3.0'],
      next: '1.3.0',
    },
    { when: 'the settings name one', at: '1.2.0', has: ['1.3.0'], deadends: ['1.2.0'], next: undefined },
    { when: 'nothing is known to run', has: ['1.3.0'], deadends: ['1.2.0'], next: '1.3.0' },
    {
      when: 'a rule from names the dead end all the same',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0 from=1.2.0'],
      deadends: ['1.2.0'],
      next: undefined,
    },
    { when: 'it is not proven either', at: '1.2.0?', has: ['1.2.0', '1.3.0'], deadends: ['1.2.0'], next: undefined },
  ]);
});

describe('the next release: downgrades', () => {
  const allow = { allowDowngrade: true };
  cases([
    { when: 'a lower version with a higher sequence', at: '1.5.0', has: ['1.5.0', '1.4.9'], next: undefined },
    { when: 'it is allowed, and came later', at: '1.5.0', has: ['1.5.0', '1.4.9 late'], over: allow, next: '1.4.9' },
    { when: 'it is allowed, and was passed over', at: '1.5.0', has: ['1.4.9', '1.5.0'], over: allow, next: undefined },
    { when: 'a higher version with a lower sequence', at: '1.5.0', has: ['1.6.0', '1.5.0'], next: undefined },
    {
      when: 'a lower sequence that is allowed and came later',
      at: '1.5.0',
      has: ['1.4.0 late', '1.5.0'],
      over: allow,
      next: '1.4.0',
    },
    { when: 'an upgrade is here too', at: '1.5.0', has: ['1.4.0 late', '1.5.0', '1.6.0'], over: allow, next: '1.6.0' },
    {
      when: 'two are allowed: the higher one',
      at: '1.5.0',
      has: ['1.3.0 late', '1.4.0 late', '1.5.0'],
      over: allow,
      next: '1.4.0',
    },
    {
      when: 'no barrier counts on the way back',
      at: '1.5.0',
      has: ['1.3.0 late', '1.4.0 was', '1.5.0'],
      barriers: ['1.4.0'],
      over: allow,
      next: '1.3.0',
    },
    {
      when: 'a dead end leads nowhere, back neither',
      at: '1.5.0',
      has: ['1.4.0 late', '1.5.0'],
      deadends: ['1.5.0'],
      over: allow,
      next: undefined,
    },
    {
      when: 'rule from counts on the way back',
      at: '1.5.0',
      has: ['1.4.0 late from=1.3.x', '1.5.0'],
      over: allow,
      next: undefined,
    },
    { when: 'the settings name a newer version', at: '1.5.0', has: ['1.4.0'], next: undefined },
    {
      when: 'tags: the application without its revision',
      at: '2.6.2-rev1',
      has: ['2.6.2-rev1', '2.6.2'],
      over: { scheme: 'three-tag' },
      next: undefined,
    },
  ]);
});

describe('the next release: end of life and what was rolled back', () => {
  cases([
    { when: 'its end of life is ahead', at: '1.0.0', has: ['1.0.0', '1.1.0 end=1001'], next: '1.1.0' },
    { when: 'its end of life is now', at: '1.0.0', has: ['1.0.0', '1.1.0 end=1000'], next: undefined },
    {
      when: 'the one below is still maintained',
      at: '1.0.0',
      has: ['1.0.0', '1.1.0 end=2000', '1.2.0 end=1'],
      next: '1.1.0',
    },
    {
      when: 'it is past and allowed',
      at: '1.0.0',
      has: ['1.0.0', '1.1.0 end=1'],
      over: { allowEndOfLife: true },
      next: '1.1.0',
    },
    { when: 'that of the present release is past', at: '1.0.0', has: ['1.0.0 end=1', '1.1.0'], next: '1.1.0' },
    { when: 'nothing runs and it is past', has: ['1.1.0 end=1'], next: undefined },
    {
      when: 'the barrier is past its end',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0 end=1', '1.4.0'],
      barriers: ['1.3.0'],
      next: undefined,
    },
    { when: 'the highest was rolled back', at: '1.2.0', has: ['1.2.0', '1.3.0', '1.4.0 denied'], next: '1.3.0' },
    { when: 'a newer one came since', at: '1.2.0', has: ['1.2.0', '1.4.0 denied', '1.5.0'], next: '1.5.0' },
    { when: 'all were rolled back', at: '1.2.0', has: ['1.2.0', '1.3.0 denied', '1.4.0 denied'], next: undefined },
  ]);
});

describe("the next release: Cincinnati's and Zincati's documented examples", () => {
  // The graph in Zincati's docs/development/cincinnati/response.json: edges 0 to 2 and 1 to 2.
  const has = ['32.20200517.1.0', '32.20200601.1.0', '32.20200601.1.1'];
  cases([
    { when: 'from the oldest', at: '32.20200517.1.0', has, next: '32.20200601.1.1', over: { scheme: 'three-tag' } },
    { when: 'from the one before', at: '32.20200601.1.0', has, next: '32.20200601.1.1', over: { scheme: 'three-tag' } },
    { when: 'from the newest', at: '32.20200601.1.1', has, next: undefined, over: { scheme: 'three-tag' } },
    { when: 'Zincati: a graph without nodes', has: [], next: undefined },
    { when: 'Zincati: the highest of the targets', at: '30.1.0', has: ['30.1.0', '30.2.0', '30.3.0'], next: '30.3.0' },
    {
      when: 'Zincati: targets on the deny-list are left out',
      at: '30.1.0',
      has: ['30.1.0', '30.2.0', '30.3.0 denied'],
      next: '30.2.0',
    },
    { when: 'Zincati: a downgrade hint is rejected', at: '30.2.0', has: ['30.1.0 late', '30.2.0'], next: undefined },
    {
      when: 'Zincati: a downgrade that the settings allow',
      at: '30.2.0',
      has: ['30.1.0 late', '30.2.0'],
      over: { allowDowngrade: true },
      next: '30.1.0',
    },
    {
      when: 'Zincati: the present release is a dead end',
      at: '30.1.0',
      has: ['30.1.0', '30.2.0'],
      deadends: ['30.1.0'],
      next: undefined,
    },
    {
      when: 'Cincinnati: edges to a rollout start at the barrier before it',
      at: '30.1.0',
      has: ['30.1.0', '30.2.0', '30.3.0', '30.4.0'],
      barriers: ['30.2.0'],
      next: '30.2.0',
    },
    {
      when: 'Cincinnati: and from the barrier itself',
      at: '30.2.0',
      has: ['30.1.0', '30.2.0', '30.3.0', '30.4.0'],
      barriers: ['30.2.0'],
      next: '30.4.0',
    },
    {
      when: 'Cincinnati: a barrier is reached from the barrier before it',
      at: '30.1.0',
      has: ['30.1.0', '30.2.0', '30.3.0'],
      barriers: ['30.1.0', '30.3.0'],
      next: '30.3.0',
    },
    {
      when: 'Cincinnati: dead ends lose their edges last',
      at: '30.1.0',
      has: ['30.1.0', '30.2.0', '30.3.0'],
      barriers: ['30.2.0'],
      deadends: ['30.1.0'],
      next: undefined,
    },
  ]);
});

describe('the route', () => {
  const route = (spec: PathSpec) => routeOf(pathOf(spec)).map(({ version }) => version);

  it.each<PathSpec & { when: string; steps: readonly string[] }>([
    {
      when: 'over a barrier',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      steps: ['1.3.0', '1.4.0'],
    },
    {
      when: 'by ranges',
      at: '1.0.0',
      has: ['1.0.0', '1.1.0 from=1.0.x', '1.2.0 from=1.1.x', '1.3.0 from=1.2.x'],
      steps: ['1.1.0', '1.2.0', '1.3.0'],
    },
    {
      when: 'not through a dead end',
      at: '1.2.0',
      has: ['1.2.0', '1.3.0', '1.4.0'],
      barriers: ['1.3.0'],
      deadends: ['1.3.0'],
      steps: ['1.3.0'],
    },
    { when: 'straight to the highest', at: '1.0.0', has: ['1.0.0', '1.1.0', '1.2.0'], steps: ['1.2.0'] },
    { when: 'nowhere', at: '1.0.0', has: ['1.0.0'], steps: [] },
    {
      when: 'back one step and no further',
      at: '1.5.0',
      has: ['1.3.0 late', '1.4.0 late', '1.5.0'],
      over: { allowDowngrade: true },
      steps: ['1.4.0'],
    },
  ])('leads $when', ({ steps, ...spec }) => {
    expect(route(spec)).toEqual(steps);
  });

  it('names the rule that blocks it with its values, dead ends last', () => {
    const path = pathOf({
      at: '1.2.0',
      has: ['1.2.0', '1.4.0 from=1.3.x'],
      barriers: ['1.3.0'],
      deadends: ['1.2.0'],
    });
    expect(path.releases.slice(1).flatMap((release) => blocksOn(path, release))).toEqual([
      { code: 'rule/from', from: '1.3.x', current: '1.2.0', isUnreadable: false },
      { code: 'rule/barrier', barrier: '1.3.0', reason: 'because of 1.3.0', lacks: 'bundle' },
      { code: 'rule/deadend', current: '1.2.0', reason: 'because of 1.2.0', saidBy: 'ocp@1.2.0' },
    ]);
  });
});
