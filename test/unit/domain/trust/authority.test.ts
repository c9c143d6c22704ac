import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { newSignersOf, withdrawalOf } from '../../../../src/domain/adoption/adoption.ts';
import { reasonText } from '../../../../src/domain/report/reasons/reason-text.ts';
import { authoritiesOf, type Role, rotatesKeys, type SignatureRules } from '../../../../src/domain/trust/role.ts';
import { keyIdOf, POLICY, stored, verified } from '../../../support/daemon/scenario.ts';

const everywhere = ['quay.example.com', 'quay.io', 'registry.example.com'];
const role = (over: Partial<Role> = {}): Role => ({
  name: 'customer',
  threshold: 1,
  streams: ['ocp'],
  repositories: everywhere,
  mayRotate: true,
  mayKeepForLife: false,
  ...over,
});
const NONE = { keyIds: [], revocationsUnreadable: false };
const rules = (over: Partial<SignatureRules> = {}): SignatureRules => ({
  threshold: 1,
  roles: [role()],
  revocations: NONE,
  ...over,
});
/** Signed by plain keys and by keys of roles, as `name` and `role/name`. */
const signedBy = (...signers: readonly string[]) => {
  const signerRoles = signers.flatMap((name) =>
    name.includes('/') ? [{ keyId: keyIdOf(name), role: name.slice(0, name.indexOf('/')) }] : [],
  );
  return { ...verified({ signedBy: signers }), ...(signerRoles.length > 0 && { signerRoles }) };
};
const namesOf = (bundle: ReturnType<typeof signedBy>, by: SignatureRules) =>
  authoritiesOf(bundle, by).map((one) => (one.kind === 'role' ? one.role.name : 'plain'));

describe('authoritiesOf', () => {
  it('counts plain keys and each role separately', () => {
    expect(namesOf(signedBy('factory'), rules())).toEqual(['plain']);
    expect(namesOf(signedBy('customer/a'), rules())).toEqual(['customer']);
    expect(namesOf(signedBy('factory', 'customer/a'), rules())).toEqual(['plain', 'customer']);
    const two = { threshold: 2, roles: [role({ threshold: 2 }), role({ name: 'other', threshold: 2 })] };
    expect(namesOf(signedBy('factory', 'customer/a', 'other/a'), rules(two))).toEqual([]);
    expect(namesOf(signedBy('factory', 'customer/a', 'other/a', 'other/b'), rules(two))).toEqual(['other']);
  });

  it('requires that the whole scope is covered', () => {
    for (const narrow of [{ streams: ['customer-*'] }, { repositories: ['registry.example.com/cust'] }]) {
      expect(namesOf(signedBy('customer/a'), rules({ roles: [role(narrow)] }))).toEqual([]);
    }
    expect(namesOf(signedBy('customer/a'), rules({ roles: [] }))).toEqual([]);
  });

  it('does not count a key in a role where it is revoked', () => {
    const inRole = { ...NONE, inRoles: new Map([['customer', [keyIdOf('customer/a')]]]) };
    expect(namesOf(signedBy('customer/a'), rules({ revocations: inRole }))).toEqual([]);
    const elsewhere = {
      ...NONE,
      keyIds: [keyIdOf('customer/a')],
      inRoles: new Map([['other', [keyIdOf('customer/a')]]]),
    };
    expect(namesOf(signedBy('customer/a'), rules({ revocations: elsewhere }))).toEqual(['customer']);
    expect(
      namesOf(signedBy('factory', 'customer/a'), rules({ revocations: { ...NONE, revocationsUnreadable: true } })),
    ).toEqual([]);
  });

  it('never grows when a signature, a role or a part of a scope is taken away', () => {
    const names = ['factory', 'audit', 'customer/a', 'customer/b', 'other/a'];
    fc.assert(
      fc.property(fc.subarray(names), fc.subarray(names), fc.integer({ min: 1, max: 3 }), (some, gone, threshold) => {
        const all = rules({ threshold, roles: [role({ threshold }), role({ name: 'other' })] });
        const fewer = some.filter((name) => !gone.includes(name));
        const before = namesOf(signedBy(...some), all);
        for (const name of namesOf(signedBy(...fewer), all)) expect(before).toContain(name);
      }),
    );
  });
});

describe('rotatesKeys', () => {
  const rotation = (named: string | undefined, ...signers: string[]) => {
    const bundle = signedBy(...signers);
    const trust = { ...(named !== undefined && { role: named }), revoked: [keyIdOf('x')] };
    return { ...bundle, payload: { ...bundle.payload, trust } };
  };

  it.each([
    ['plain keys rotate plain keys', undefined, ['factory'], true],
    ['a role does not rotate plain keys', undefined, ['customer/a'], false],
    ['plain keys do not rotate a role', 'customer', ['factory'], false],
    ['a role rotates itself', 'customer', ['customer/a'], true],
    ['a role does not rotate another', 'other', ['customer/a'], false],
    ['both together do not rotate a third', 'third', ['factory', 'customer/a'], false],
  ])('%s', (_name, named, signers, isAllowed) => {
    const roles = [role(), role({ name: 'other' }), role({ name: 'third' })];
    expect(rotatesKeys(rotation(named, ...signers), rules({ roles }))).toBe(isAllowed);
  });

  it('requires the threshold, the scope and the permission of the role', () => {
    const signed = rotation('customer', 'customer/a');
    for (const less of [{ threshold: 2 }, { streams: ['other'] }, { repositories: [] }, { mayRotate: false }]) {
      expect(rotatesKeys(signed, rules({ roles: [role(less)] }))).toBe(false);
    }
  });
});

describe('an adopted bundle that a role signed', () => {
  const bundle = stored(signedBy('customer/a'));
  const approvals = { policy: POLICY.trust, verdicts: [] };
  const textWith = (roles: readonly Role[], revocations = NONE) => {
    const lost = withdrawalOf(bundle, { revocations, roles }, approvals);
    return lost && `${lost.reason.code}: ${reasonText(lost.reason)}`;
  };

  it('is trusted as long as the role covers it', () => {
    expect(textWith([role()])).toBeUndefined();
    expect(textWith([])).toMatch(/^trust\/role: .*role customer is not in force/);
    expect(textWith([role({ streams: ['customer-*'] })])).toMatch(/role customer may not sign for stream ocp any more/);
    expect(textWith([role({ repositories: ['registry.example.com/cust'] })])).toMatch(
      /role customer may not sign stream ocp for repository \S+ any more/,
    );
    expect(textWith([role({ threshold: 2 })])).toMatch(/role customer needs 2 of its keys now, not 1/);
  });

  it('is not trusted when its key was revoked in the role, but stays trusted when it was revoked elsewhere', () => {
    const inRoles = (name: string) => ({ ...NONE, inRoles: new Map([[name, [keyIdOf('customer/a')]]]) });
    expect(textWith([role()], inRoles('customer'))).toMatch(/^trust\/key-revoked: /);
    expect(textWith([role()], inRoles('other'))).toBeUndefined();
  });

  it('gets more signers from its medium, each in its role, and one that is a plain key now counts as such', () => {
    const carrier = (again: ReturnType<typeof signedBy>) => [{ found: { bundle: { ...bundle, ...again } } }];
    expect(newSignersOf(bundle, carrier(signedBy('customer/a')), true)).toBeUndefined();
    const more = newSignersOf(bundle, carrier(signedBy('customer/a', 'other/a')), true);
    expect(more?.signerRoles?.map((one) => one.role).sort()).toEqual(['customer', 'other']);
    const plain = newSignersOf(bundle, carrier({ ...verified({ signedBy: ['customer/a'] }), signerRoles: [] }), true);
    expect(plain).toMatchObject({ signerKeyIds: [keyIdOf('customer/a')] });
    expect(plain?.signerRoles).toBeUndefined();
  });
});

describe('a key that is shown in another role than the stored one', () => {
  const inRole = (name: string, ...roles: readonly string[]) =>
    stored({
      ...verified({ signedBy: [`${name}/a`] }),
      signerKeyIds: ['a', 'b'].slice(0, roles.length),
      signerRoles: roles.map((one, at) => ({ keyId: 'ab'.charAt(at), role: one })),
    });
  const on = (...bundles: readonly ReturnType<typeof inRole>[]) => bundles.map((bundle) => ({ found: { bundle } }));
  const before = inRole('customer', 'customer');

  it('is taken into it while the bundle is not trusted, under its new name alone', () => {
    expect(newSignersOf(before, on(inRole('apps', 'apps')), false)).toEqual({
      signedBy: ['apps/a'],
      signerKeyIds: ['a'],
      signerRoles: [{ keyId: 'a', role: 'apps' }],
    });
  });

  it('stays in the stored one while the bundle is trusted by it', () => {
    expect(newSignersOf(before, on(inRole('apps', 'apps')), true)).toBeUndefined();
  });

  it('stays while a medium still shows the stored one, so that it never moves to and fro', () => {
    for (const role of ['customer', 'apps']) {
      const media = on(inRole('customer', 'customer'), inRole('apps', 'apps'));
      expect(newSignersOf(inRole(role, role), media, false)).toBeUndefined();
    }
  });

  it('is moved alone: a key of the old role that no medium shows in the new one stays', () => {
    const both = inRole('customer', 'customer', 'customer');
    const moved = newSignersOf(both, on(inRole('apps', 'apps')), false);
    expect(moved?.signerRoles).toEqual([
      { keyId: 'a', role: 'apps' },
      { keyId: 'b', role: 'customer' },
    ]);
    const rolesOf = (threshold: number) => [role({ threshold, name: 'customer' }), role({ threshold, name: 'apps' })];
    const now = { ...both, ...moved };
    expect(namesOf(now, rules({ roles: rolesOf(2) }))).toEqual([]);
    expect(namesOf(now, rules({ roles: rolesOf(1) }))).toEqual(['customer', 'apps']);
  });
});
