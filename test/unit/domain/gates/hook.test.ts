import { describe, expect, it } from 'vitest';
import { hook } from '../../../../src/domain/activation/release-gates.ts';
import { type HookMemory, NO_HOOKS } from '../../../../src/domain/state/hook.ts';
import { NOON, POLICY, stored, verified } from '../../../support/daemon/scenario.ts';

const unit = 'before.service';
const policy = { ...POLICY, hooks: { ...POLICY.hooks, 'before-activate': unit } };
const bundle = stored(verified(), { readyAt: NOON, activationRequestedAt: NOON + 5 });
const run = { hook: 'before-activate', unit, bundleId: bundle.bundleId, event: NOON + 5 } as const;
const ask = (over: Partial<HookMemory> = {}, asked = bundle) =>
  hook({ bundle: asked, policy, hooks: { ...NO_HOOKS, ...over } });
const succeeded = (event: number, by = unit): Partial<HookMemory> => ({
  ledger: new Map([['before-activate', { unit: by, done: new Map([[bundle.bundleId, event]]) }]]),
});

describe('the gate of hook before-activate', () => {
  it('lets a release pass without a hook, and after the hook has succeeded for this activation', () => {
    expect(hook({ bundle, policy: POLICY, hooks: NO_HOOKS })).toEqual({ kind: 'pass' });
    expect(ask(succeeded(NOON + 5))).toEqual({ kind: 'pass' });
  });

  it.each([
    ['an earlier activation', succeeded(NOON)],
    ['another unit', succeeded(NOON + 5, 'other.service')],
  ])('holds after a success for %s', (_what, hooks) => {
    expect(ask(hooks)).toMatchObject({ hold: { code: 'hook', keepsDue: true, data: { unit, state: 'start' } } });
  });

  it('holds while the hook runs, even where its success is recorded already', () => {
    const running = [{ ...run, startedAt: NOON }];
    expect(ask({ ...succeeded(NOON + 5), running })).toMatchObject({
      hold: { data: { state: 'end' }, releasedBy: 'event' },
    });
  });

  it('holds with the failure of the unit until it is tried again', () => {
    const why = { kind: 'ended', job: 'failed', result: 'exit-code', status: 3 } as const;
    expect(ask({ failed: [{ ...run, why, attempts: 4, retryAt: NOON + 60 }] })).toMatchObject({
      hold: { releasedBy: 'time', checkAgainAt: NOON + 60, data: { state: 'retry', attempts: 4, why } },
    });
  });

  it('waits for attached files', () => {
    const digest = bundle.bundleId;
    const payload = { ...bundle.payload, attachments: [{ name: 'a', mediaType: 'text/plain', digest, size: 1 }] };
    const attached = { ...bundle, payload };
    expect(ask({}, attached)).toMatchObject({ hold: { data: { state: 'files' } } });
    const folder = `${payload.name}/${payload.version}`;
    expect(ask({ installed: new Map([[folder, bundle.bundleId]]) }, attached)).toMatchObject({
      hold: { data: { state: 'start' } },
    });
  });
});
