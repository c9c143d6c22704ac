import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeGates, judgeRules } from '../../../../../src/domain/activation/gates.ts';
import { NO_FLOORS } from '../../../../../src/domain/adoption/floors.ts';
import type { UpdateRules } from '../../../../../src/domain/model/bundle.ts';
import { RULE_CODES } from '../../../../../src/domain/model/reason.ts';
import { confirmationMessage, ruleReason } from '../../../../../src/domain/report/hold-text.ts';
import { shownRules } from '../../../../../src/domain/report/parts/part-reports.ts';
import { NO_HOOKS } from '../../../../../src/domain/state/hook.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import { createModelMachine } from '../../../../support/daemon/model/model-machine.ts';
import { createModelNode } from '../../../../support/daemon/model/model-node.ts';
import { FACTS, NOON, POLICY, pathWith, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

const HOUR = 3_600_000;
const at = (time: number) => new Date(time).toISOString();
/** The present release, a dead end. */
const present = stored(verified({ version: '4.13.6', sequence: 6, update: { deadend: { reason: 'x' } } }), {
  readyAt: 1,
  activatedAt: 1,
  provenAt: 2,
});
const plain = stored(verified({ version: '4.13.6', sequence: 6 }), { readyAt: 1, activatedAt: 1, provenAt: 2 });
/** The last node of every rollout. */
const LAST = { ...POLICY, update: { ...POLICY.update, rollout_wariness: 1 } };
const CONTEXT = {
  bundles: [],
  imageUses: undefined,
  fleet: undefined,
  path: pathWith([plain]),
  policy: LAST,
  now: NOON,
  facts: FACTS,
  clockFault: undefined,
  withdrawn: undefined,
  absentImages: 0,
  floors: NO_FLOORS,
  running: [],
  failures: [],
  hooks: NO_HOOKS,
  foreignTag: undefined,
};
const QUESTION = {
  bundles: [],
  path: pathWith([plain]),
  now: NOON,
  clockSynchronised: false,
  policy: LAST,
  facts: FACTS,
};
const rulesOn = (update: UpdateRules, over: Partial<StoredBundle> = {}) => ({
  ...stored(verified({ update }), { readyAt: NOON }),
  ...over,
});
const judge = (update: UpdateRules, over: Partial<StoredBundle> = {}) => judgeRules(rulesOn(update, over), QUESTION);
const codes = (update: UpdateRules, over: Partial<StoredBundle> = {}) =>
  judge(update, over).holds.map(({ code }) => code);

describe('rules that hold an activation', () => {
  it.each<[when: string, update: UpdateRules, holds: readonly string[], checkAgainAt?: number]>([
    ['no rule', {}, []],
    ['a range in from that has the present release', { from: '>=4.12.0' }, []],
    ['a range in from that has it not', { from: '>=4.13.7' }, ['rule/from']],
    [
      'a rollout that has not begun',
      { rollout: { start: at(NOON + HOUR), durationMinutes: 60 } },
      ['rule/rollout'],
      NOON + 2 * HOUR,
    ],
    [
      'a rollout under way',
      { rollout: { start: at(NOON - HOUR), durationMinutes: 61, startPercentage: 0.5 } },
      ['rule/rollout'],
      NOON + 60_000,
    ],
    ['a rollout that ends now', { rollout: { start: at(NOON - HOUR), durationMinutes: 60 } }, []],
    [
      'a rollout that is one moment',
      { rollout: { start: at(NOON + 1), startPercentage: 1 } },
      ['rule/rollout'],
      NOON + 1,
    ],
    ['such a one that is past', { rollout: { start: at(NOON), startPercentage: 1 } }, []],
    [
      'a rollout for a part of the nodes that never ends',
      { rollout: { start: at(NOON - HOUR), startPercentage: 0.1 } },
      ['rule/rollout'],
    ],
    ['an end of life ahead', { endOfLife: at(NOON + 1) }, [], NOON + 1],
    ['an end of life that is now', { endOfLife: at(NOON) }, ['rule/end-of-life']],
    ['rules about other releases', { barrier: { reason: 'x' }, deadend: { reason: 'y' } }, []],
    [
      'all at once',
      { from: '1.x', rollout: { start: at(NOON + 1), startPercentage: 1 }, endOfLife: at(NOON - 1) },
      ['rule/from', 'rule/rollout', 'rule/end-of-life'],
      NOON + 1,
    ],
  ])('%s', (_when, update, holds, checkAgainAt) => {
    expect(codes(update)).toEqual(holds);
    expect(judge(update).checkAgainAt).toBe(checkAgainAt);
  });

  it('hold no release that was activated on this node before, so that a rollback is always possible', () => {
    expect(codes({ from: '>=99.0.0', endOfLife: at(NOON - 1) }, { activatedAt: 1 })).toEqual([]);
  });

  it('hold only by rules that were not confirmed', () => {
    const update = { from: '>=99.0.0', endOfLife: at(NOON - 1) };
    expect(codes(update, { activationOverrides: ['rule/from'] })).toEqual(['rule/end-of-life']);
    expect(codes(update, { activationOverrides: RULE_CODES })).toEqual([]);
  });

  it('are not judged by a clock that is behind the newest bundle of the stream', () => {
    const update = { rollout: { start: at(NOON - HOUR), durationMinutes: 30 }, endOfLife: at(NOON + HOUR) };
    const held = (name: string, now = NOON) => {
      const bundles = [stored(verified({ name, created: '2030-01-01T00:00:00Z' })), rulesOn(update)];
      return judgeRules(rulesOn(update), { ...QUESTION, bundles, now }).holds.map(({ code }) => code);
    };
    expect(held('ocp')).toEqual(['clock']);
    expect(held('tools')).toEqual([]);
    expect(held('ocp', Date.parse('2030-01-01T00:00:00Z'))).toEqual(['rule/end-of-life']);
  });

  it('name the rule that holds, its values and what to do', () => {
    const bundle = rulesOn({ from: '>=99.0.0' });
    const { holds } = judgeRules(bundle, QUESTION);
    expect(ruleReason(bundle, holds)).toEqual({
      code: 'rule/from',
      message: `It is not activated automatically: its rule "from" needs >=99.0.0, and the current release is 4.13.6. To activate it anyway, run 'stickpin activate ocp@4.13.7' and confirm`,
    });
    expect(confirmationMessage(bundle, holds)).toBe(
      `the activation of ocp 4.13.7 is held: its rule "from" needs >=99.0.0, and the current release is 4.13.6. It is activated after a confirmation only`,
    );
    expect(ruleReason(bundle, [])).toBeUndefined();
  });

  it('show the turn of this node in a rollout, and that the activation is then automatic', () => {
    const message = (update: UpdateRules, manual = false, isSynchronised = true) => {
      const bundle = stored(verified({ update, ...(manual && { schedule: 'manual' }) }), { readyAt: NOON });
      const { holds } = judgeGates({ ...CONTEXT, bundle, clockSynchronised: isSynchronised });
      return ruleReason(bundle, holds)?.message;
    };
    const rollout = { start: '2030-01-01T00:00:00Z', durationMinutes: 90 };
    expect(message({ rollout })).toMatch(
      /^It is not activated yet: .* from 2030-01-01T01:30:00Z\. The wariness of this node is 1\. It is activated automatically/,
    );
    expect(message({ rollout }, true)).toMatch(
      /^It is not activated automatically: .* from 2030-01-01T01:30:00Z\. The wariness of this node is 1\./,
    );
    expect(message({ rollout, from: '1.x' })).toMatch(/^It is not activated automatically: its rule "from"/);
    expect(message({ rollout }, false, false)).toContain("This node's clock is not synchronised");
    expect(message({ endOfLife: '2026-01-01T00:00:00Z' })).toContain('end of life was on 2026-01-01T00:00:00Z');
  });

  it('hold each by its own values, and are each overridden by their own code only', () => {
    const barrier = stored(verified({ version: '4.13.7', sequence: 7, update: { barrier: { reason: 'x' } } }));
    const held = stored(verified({ version: '4.13.5', sequence: 9, update: { from: '<4.0.0' } }));
    const beyond = stored(verified({ version: '4.13.9', sequence: 10 }));
    const path = pathWith([present, barrier, held, beyond]);
    const holdsOf = (bundle: StoredBundle) => judgeRules(bundle, { ...QUESTION, path }).holds.map(({ code }) => code);
    expect(holdsOf(held)).toEqual(['rule/from', 'rule/downgrade', 'rule/deadend']);
    expect(holdsOf(beyond)).toEqual(['rule/barrier', 'rule/deadend']);
    expect(holdsOf({ ...beyond, activationOverrides: ['rule/deadend'] })).toEqual(['rule/barrier']);
    expect(holdsOf({ ...beyond, activationOverrides: RULE_CODES })).toEqual([]);
    expect(holdsOf({ ...beyond, activatedAt: 5 })).toEqual([]);
  });

  it('never throw, for any clock and payload', () => {
    const times = fc.integer({ min: -8.64e15, max: 8.64e15 });
    const years = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true });
    fc.assert(
      fc.property(
        times,
        years,
        fc.option(fc.maxSafeNat()),
        fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
        (now, date, minutes, percent) => {
          const rollout = {
            start: date.toISOString(),
            ...(minutes !== null && { durationMinutes: minutes }),
            ...(percent !== null && { startPercentage: percent }),
          };
          const bundle = rulesOn({ rollout, endOfLife: date.toISOString() });
          const { holds, checkAgainAt } = judgeRules(bundle, { ...QUESTION, now, clockSynchronised: false });
          expect(checkAgainAt === undefined || checkAgainAt > now).toBe(true);
          expect(ruleReason(bundle, holds)?.message ?? '').not.toMatch(/NaN|undefined|Invalid/);
        },
      ),
    );
  });
});

describe('shown rules', () => {
  it('state whether each holds now', () => {
    const update = {
      from: '1.x',
      barrier: { reason: 'storage is migrated' },
      deadend: { reason: 'superseded' },
      rollout: { start: '2030-01-01T00:00:00Z', durationMinutes: 1, startPercentage: 0.05 },
      endOfLife: '2031-01-01T00:00:00Z',
    };
    expect(shownRules({ update })).toEqual([
      { rule: 'from', value: '1.x', effect: 'holds-activation' },
      {
        rule: 'rollout',
        value: 'from 2030-01-01T00:00:00Z, over 1 minute, 5 % of the nodes at once',
        effect: 'holds-activation',
      },
      { rule: 'endOfLife', value: '2031-01-01T00:00:00Z', effect: 'holds-activation' },
      { rule: 'barrier', value: 'storage is migrated', effect: 'holds-others' },
      { rule: 'deadend', value: 'superseded', effect: 'holds-others' },
    ]);
    expect(shownRules({})).toEqual([]);
  });
});

describe('rules on a model of a node', () => {
  const release = (sequence: number, update?: UpdateRules) =>
    verified({
      version: `4.13.${sequence}`,
      sequence,
      images: { [`etcd-${sequence}`]: ['os', `e${sequence}`], [`api-${sequence}`]: ['os', `a${sequence}`] },
      imageOver: { [`etcd-${sequence}`]: { component: 'etcd' }, [`api-${sequence}`]: { component: 'api' } },
      ...(update !== undefined && { update }),
    });

  function createNode(update: UpdateRules) {
    const machine = createModelMachine();
    const node = createModelNode({ machine, policy: LAST });
    for (const bundle of [release(6), release(7, update)]) {
      node.plug(bundle);
      node.settle();
    }
    const activated = () =>
      node.bundles().flatMap((one) => (one.activatedAt === undefined ? [] : [one.payload.version]));
    return { machine, node, activated };
  }

  it('keep a held release ready and pinned, also after a restart, and hold no other release', () => {
    const { machine, node, activated } = createNode({ from: '>=99.0.0' });
    node.restart();
    node.settle();
    expect(activated()).toEqual(['4.13.6']);
    expect(node.bundles().every(({ readyAt }) => readyAt !== undefined)).toBe(true);
    expect(machine.pins).toContain(referenceOf('etcd-7'));
    expect(() => node.commands.activate('ocp@4.13.7')).toThrow(/>=99\.0\.0/);
    node.commands.activate('ocp@4.13.7', { override: true });
    node.restart();
    node.settle();
    expect(activated()).toEqual(['4.13.6', '4.13.7']);
  });

  it('hold until the rollout is over', () => {
    const { machine, node, activated } = createNode({ rollout: { start: at(NOON + HOUR), durationMinutes: 60 } });
    machine.pass(2 * HOUR - 1_000);
    node.settle();
    expect(activated()).toEqual(['4.13.6']);
    machine.pass(1_000);
    node.settle();
    expect(activated()).toEqual(['4.13.6', '4.13.7']);
  });

  it('do not hold a release whose containers run', () => {
    const { machine, node, activated } = createNode({ endOfLife: at(NOON - HOUR) });
    for (const name of ['etcd', 'api']) machine.run(name, referenceOf(`${name}-7`));
    node.settle();
    machine.pass(60_000);
    node.settle();
    expect(activated()).toEqual(['4.13.6', '4.13.7']);
  });
});
