import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GateContext } from '../../../../src/domain/activation/gate.ts';
import { type ActivationHold, judgeGates } from '../../../../src/domain/activation/gates.ts';
import { NO_FLOORS } from '../../../../src/domain/adoption/floors.ts';
import { RULE_CODES, type RuleCode } from '../../../../src/domain/model/reason.ts';
import { holdMessage } from '../../../../src/domain/report/hold-text.ts';
import { NO_HOOKS } from '../../../../src/domain/state/hook.ts';
import { FACTS, NOON, POLICY, pathWith, stored, verified } from '../../../support/daemon/scenario.ts';

const DAY = 86_400_000;
const time = fc.integer({ min: -3, max: 3 }).map((days) => new Date(NOON + days * DAY).toISOString());

/** A release with any rules beside a present one that may be a barrier, unproven, or a dead end. */
const contexts = fc
  .record({
    rules: fc.record(
      {
        from: fc.constantFrom('>=4.12.0', '>=4.14.0'),
        rollout: fc.record({ start: time, durationMinutes: fc.integer({ min: 1, max: 10_000 }) }),
        endOfLife: time,
      },
      { requiredKeys: [] },
    ),
    present: fc.record(
      { barrier: fc.constant({ reason: 'b' }), deadend: fc.constant({ reason: 'd' }) },
      { requiredKeys: [] },
    ),
    isProven: fc.boolean(),
    sequence: fc.constantFrom(5, 7),
    schedule: fc.constantFrom('immediate' as const, 'manual' as const),
    isRolledBack: fc.boolean(),
    strategy: fc.constantFrom('immediate' as const, 'window' as const, 'manual' as const),
    windowDay: fc.integer({ min: 0, max: 6 }),
    wariness: fc.double({ min: 0.01, max: 1, noNaN: true }),
    withdrawn: fc.constantFrom(undefined, 'trust/key-revoked'),
    absentImages: fc.constantFrom(0, 2),
    isCancelled: fc.boolean(),
  })
  .map((drawn): GateContext => {
    const { rules, present, sequence, schedule, strategy, windowDay } = drawn;
    const here = stored(verified({ version: '4.13.6', sequence: 6, update: present }), {
      readyAt: 1,
      activatedAt: 1,
      ...(drawn.isProven && { provenAt: 2 }),
    });
    const bundle = stored(verified({ version: `4.13.${sequence}`, sequence, update: rules, schedule }), {
      readyAt: NOON,
      ...(drawn.isRolledBack && { rolledBackAt: NOON - 1, rolledBackReason: 'it went back' }),
      ...(drawn.isCancelled && { cancelled: { at: NOON, media: [] } }),
    });
    const windows = [{ days: [windowDay], startMinute: 180, lengthMinutes: 60 }];
    return {
      bundle,
      bundles: [here, bundle],
      imageUses: undefined,
      fleet: undefined,
      path: pathWith([here, bundle]),
      policy: { ...POLICY, update: { ...POLICY.update, strategy, windows, rollout_wariness: drawn.wariness } },
      now: NOON,
      facts: FACTS,
      clockSynchronised: true,
      clockFault: undefined,
      withdrawn: drawn.withdrawn,
      absentImages: drawn.absentImages,
      floors: NO_FLOORS,
      running: [],
      failures: [],
      hooks: NO_HOOKS,
      foreignTag: undefined,
    };
  });

const isRule = (code: string): code is RuleCode => RULE_CODES.some((one) => one === code);

/**
 * The context once what the hold names has happened; undefined where it is no matter of the
 * context.
 */
function ended(context: GateContext, { code, releasedBy, checkAgainAt }: ActivationHold): GateContext | undefined {
  if (releasedBy === 'time') return checkAgainAt === undefined ? undefined : { ...context, now: checkAgainAt };
  if (!isRule(code)) return undefined;
  const bundle = { ...context.bundle, activationRequestedAt: NOON, activationOverrides: [code] };
  return { ...context, bundle };
}

describe('every hold of an activation', () => {
  it('has its own sentence, and is ended by what it names', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(contexts, (context) => {
        for (const hold of judgeGates(context).holds) {
          seen.add(hold.code);
          expect(holdMessage(hold)).not.toMatch(/^gate /);
          const next = ended(context, hold);
          if (next === undefined) continue;
          expect(judgeGates(next).holds.map(({ code }) => code)).not.toContain(hold.code);
        }
      }),
      { numRuns: 400 },
    );
    expect([...seen].sort()).toEqual(
      expect.arrayContaining([
        'engine/cancelled',
        'engine/manual',
        'rule/from',
        'rule/rollout',
        'trust/withdrawn',
        'window',
      ]),
    );
  });
});
