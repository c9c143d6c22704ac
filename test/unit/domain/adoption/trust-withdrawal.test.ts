import { describe, expect, it } from 'vitest';
import { withdrawalOf } from '../../../../src/domain/adoption/adoption.ts';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import { eventsBetween } from '../../../../src/domain/report/events/events.ts';
import { reasonText } from '../../../../src/domain/report/reasons/reason-text.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import {
  allListed,
  found,
  judge,
  keyIdOf,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  type Scene,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified({ signedBy: ['factory-2026'] });
const revoked = (...names: string[]): Required<Pick<Scene, 'revocations'>> => ({
  revocations: { keyIds: names.map(keyIdOf), revocationsUnreadable: false },
});
const approvals = { policy: POLICY.trust, verdicts: [] };
const standing = (over: Partial<typeof bundle>, threshold = 1, ...names: string[]) =>
  withdrawalOf(stored({ ...bundle, ...over }), revoked(...names), {
    ...approvals,
    policy: { ...approvals.policy, threshold },
  });

describe('withdrawalOf', () => {
  it('compares the remaining signers with the current threshold', () => {
    const two = verified({ signedBy: ['audit', 'factory-2026'] });
    expect(standing(two, 1, 'audit')).toBeUndefined();
    expect(standing(two, 2)).toBeUndefined();
    expect(standing(two, 2, 'audit')?.reason.code).toBe('trust/key-revoked');
    expect(standing(two, 3)?.reason.code).toBe('trust/threshold');
  });

  it('names the revoked key, and what to do', () => {
    const { reason } = standing({}, 1, 'factory-2026') ?? {};
    const text = reason && reasonText(reason);
    expect(text).toContain(keyIdOf('factory-2026').slice(0, 12));
    expect(text).toContain('Bring it signed again');
  });

  it('trusts nothing while a revocation cannot be read', () => {
    const blind = { revocations: { keyIds: [], revocationsUnreadable: true } };
    expect(withdrawalOf(stored(bundle), blind, approvals)?.reason.code).toBe('trust/blind');
  });

  it('lets an approved digest stand without a signature where approval is enough', () => {
    const policy = { require: 'approval', threshold: 1, approved: [bundle.bundleId] } as const;
    const unsigned = stored({ ...bundle, signedBy: [], signerKeyIds: [] });
    const inForce = revoked('factory-2026');
    expect(withdrawalOf(unsigned, inForce, { policy, verdicts: [] })).toBeUndefined();
    const signature = { ...policy, require: 'signature' } as const;
    expect(withdrawalOf(unsigned, inForce, { policy: signature, verdicts: [] })?.phase).toBe('rejected');
  });

  it('lets a lost role or threshold stand while the settings are wrong, but no revoked key', () => {
    const wrong = { facts: { keepsOnly: true }, trust: { revoked: [] as { keyId: string }[] } } as const;
    const inRole = stored({ ...bundle, signerRoles: [{ keyId: keyIdOf('factory-2026'), role: 'customer' }] });
    const two = { ...approvals, policy: { ...approvals.policy, threshold: 2 } };
    const codeOf = (one: typeof inRole, over: Partial<Parameters<typeof withdrawalOf>[1]>, by = approvals) =>
      withdrawalOf(one, { ...revoked(), ...over }, by)?.reason.code;
    expect(codeOf(inRole, {})).toBe('trust/role');
    expect(codeOf(inRole, wrong)).toBeUndefined();
    expect(codeOf(stored(bundle), {}, two)).toBe('trust/threshold');
    expect(codeOf(stored(bundle), wrong, two)).toBeUndefined();
    expect(codeOf(stored(bundle), { ...wrong, ...revoked('factory-2026') })).toBe('trust/key-revoked');
    expect(codeOf(inRole, { ...wrong, ...revoked('factory-2026') })).toBe('trust/role');
    const elsewhere = { revoked: [{ keyId: keyIdOf('factory-2026') }] };
    expect(codeOf(inRole, { ...wrong, trust: elsewhere })).toBe('trust/role');
    const verdicts = [{ bundleId: bundle.bundleId, verdict: 'rejected', at: 1 }] as const;
    expect(withdrawalOf(inRole, { ...revoked(), ...wrong }, { ...approvals, verdicts })?.reason.code).toBe(
      'trust/rejected',
    );
    const blind = { revocations: { keyIds: [], revocationsUnreadable: true } };
    expect(codeOf(inRole, { ...wrong, ...blind })).toBe('trust/blind');
  });
});

describe('a bundle whose key was revoked', () => {
  const plugged = { media: [medium('sdb1', [found(bundle)])], ...revoked('factory-2026') };

  it('that was being preloaded is rejected: nothing is pulled and nothing served', () => {
    const observed = observation(plugged);
    const { first, decision, assessment } = judge(observed, [stored(bundle)]);
    expect(first).toMatchObject({ phase: 'rejected', reason: { code: 'trust/key-revoked' }, pullableImages: [] });
    expect(spoken(decision.effects)).toEqual(['apply-pins 2']);
    expect([...catalogOf(observed, assessment, POLICY).keys()]).toEqual([]);
  });

  it('has its running tasks cancelled', () => {
    const task = pullOf(bundle, 'etcd');
    const { decision } = judge(observation({ ...plugged, running: [task] }), [stored(bundle)]);
    expect(decision.effects).toContainEqual({ kind: 'cancel', task });
  });

  it('that is ready is not activated, and what runs from it stays pinned', () => {
    const asked = stored(bundle, { readyAt: NOON, activationRequestedAt: NOON });
    const runtime = reachable({ images: allListed(bundle) });
    const { first, decision } = judge(observation({ ...plugged, runtime }), [asked]);
    expect(first).toMatchObject({ phase: 'ready', activationDue: false, reason: { code: 'trust/key-revoked' } });
    expect(spoken(decision.effects)).toEqual(['apply-pins 2']);
  });

  it('is reported, and again when a signature of a trusted key was added', () => {
    const snapshot = (over: Partial<Scene>, signedBy = ['factory-2026']) => {
      const observed = observation({ ...plugged, ...over });
      return {
        observed,
        memory: observed,
        assessment: judge(observed, [stored({ ...bundle, ...verified({ signedBy }) })]).assessment,
      };
    };
    const before = snapshot({ revocations: { keyIds: [], revocationsUnreadable: false } });
    const during = snapshot({});
    expect(eventsBetween(before, during).map(({ kind }) => kind)).toEqual(['trustWithdrawn']);
    expect(eventsBetween(during, during)).toEqual([]);
    const after = snapshot({}, ['factory-2026', 'factory-2027']);
    expect(eventsBetween(during, after).map(({ kind }) => kind)).toEqual(['trustRestored']);
  });
});

describe('signers on a medium that are not recorded yet', () => {
  const again = { ...bundle, signedBy: ['factory-2027'], signerKeyIds: [keyIdOf('factory-2027')] };
  const plugged = observation({ media: [medium('sdb1', [found(again)])], ...revoked('factory-2026') });

  it('are added to the recorded ones', () => {
    const { decision } = judge(plugged, [stored(bundle)]);
    expect(decision.effects).toContainEqual({
      kind: 'record-signers',
      bundleId: bundle.bundleId,
      signedBy: ['factory-2026', 'factory-2027'],
      signerKeyIds: [keyIdOf('factory-2026'), keyIdOf('factory-2027')].sort(),
    });
  });

  it('make the bundle trusted once they are recorded', () => {
    const both = stored({ ...bundle, signerKeyIds: [keyIdOf('factory-2026'), keyIdOf('factory-2027')].sort() });
    const { first, decision } = judge(plugged, [both], POLICY satisfies Policy);
    expect(first).toMatchObject({ phase: 'preloading', withdrawn: undefined });
    expect(spoken(decision.effects)).not.toContain('record-signers');
  });
});
