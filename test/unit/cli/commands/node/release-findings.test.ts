import { describe, expect, it } from 'vitest';
import { releaseFindings } from '../../../../../src/cli/commands/node/doctor.ts';
import type { ActivationHoldReport, BundleReport } from '../../../../../src/domain/report/status-schema.ts';

const found = (over: Partial<BundleReport>) =>
  releaseFindings({ name: 'ocp', version: '4.13.7', bundleId: 'sha256:ab', ...over } as BundleReport);
const hold = (code: string, releasedBy: ActivationHoldReport['releasedBy']): ActivationHoldReport => ({
  gate: code,
  code,
  message: 'it waits',
  releasedBy,
});
const held = (...activationHolds: readonly ActivationHoldReport[]) =>
  found({ reason: { code: activationHolds[0]?.code ?? '', message: 'It waits' }, activationHolds })[0];

describe('the findings about a release', () => {
  it('are none while nothing is wrong', () => {
    expect(found({})).toEqual([]);
  });

  it('name the remedy of the reason, or where an adapter reports one', () => {
    const reason = { code: 'engine/no-source', message: 'Stick removed' };
    expect(found({ reason })).toMatchObject([
      { verdict: 'warning', remedy: expect.stringMatching(/^plug its stick in again/) },
    ]);
    expect(found({ reason, degraded: { code: 'runtime/pull-failed', message: 'no' } })).toMatchObject([
      { verdict: 'warning', remedy: "see 'stickpin show ocp@4.13.7' and 'journalctl -u stickpin -x'" },
    ]);
  });

  it('are no warning where it ends automatically', () => {
    expect(found({ reason: { code: 'media/looking', message: 'stickpin looks' } })).toMatchObject([{ verdict: 'ok' }]);
    expect(held(hold('window', 'time'))).toMatchObject({ verdict: 'ok' });
    expect(held(hold('fleet/order', 'event'), hold('window', 'time'))).toMatchObject({ verdict: 'ok' });
    expect(held(hold('rule/barrier', 'event'))).toMatchObject({ verdict: 'ok' });
    expect(held(hold('hook', 'event'))).toMatchObject({ verdict: 'ok' });
  });

  it('are a warning where a person ends one of the holds', () => {
    const remedy = "to activate it anyway, run 'stickpin activate ocp@4.13.7'";
    expect(held(hold('rule/rollout', 'person'))).toMatchObject({ verdict: 'warning', remedy });
    expect(held(hold('window', 'time'), hold('engine/manual', 'person'))).toMatchObject({ verdict: 'warning', remedy });
    expect(held(hold('clock', 'event'))).toMatchObject({
      remedy: expect.stringMatching(/^set the clock of this node/),
    });
    expect(held(hold('hook', 'time'))?.verdict).toBe('warning');
  });
});
