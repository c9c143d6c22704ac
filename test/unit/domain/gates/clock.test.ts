import { expect, it } from 'vitest';
import { clock } from '../../../../src/domain/activation/timing-gates.ts';
import type { RuleCode } from '../../../../src/domain/model/reason.ts';
import { NOON, POLICY, stored, verified } from '../../../support/daemon/scenario.ts';

const clockFault = { kind: 'before-build', least: NOON + 1 } as const;
const update = { from: '>=9.0.0', rollout: { start: '2026-03-10T12:00:00Z', durationMinutes: 60 } };

it.each<{ confirmed: readonly RuleCode[] | undefined; kind: 'pass' | 'hold' }>([
  { confirmed: undefined, kind: 'hold' },
  { confirmed: [], kind: 'hold' },
  { confirmed: ['rule/from'], kind: 'hold' },
  { confirmed: ['clock'], kind: 'pass' },
  { confirmed: ['rule/from', 'clock'], kind: 'pass' },
])('with $confirmed confirmed, a clock that can not be right is a $kind', ({ confirmed, kind }) => {
  const bundle = stored(verified({ update }), {
    readyAt: NOON,
    activationRequestedAt: NOON,
    ...(confirmed !== undefined && { activationOverrides: confirmed }),
  });
  expect(clock({ bundle, policy: POLICY, clockFault }).kind).toBe(kind);
});
