import { beforeEach, describe, expect, it } from 'vitest';
import { loadTrustedKeys } from '../../../../src/bundle/keys/trust.ts';
import { type RotationInForce, withRotation } from '../../../../src/bundle/keys/with-rotation.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { installRole, type RoleFileOptions } from '../../../support/bundles/role-file.ts';
import { installKeys, type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const [plain, customer, next] = [sampleKey('factory'), sampleKey('customer'), sampleKey('next')];
const bundleId = digestFromHex('a'.repeat(64));
const idOf = (key: SampleKey) => key.privateKey.keyId;
const brought = (key: SampleKey, role?: string) => ({
  keyId: idOf(key),
  pem: key.publicPem,
  bundleId,
  ...(role !== undefined && { role }),
});
const revoked = (key: SampleKey, role?: string) => ({
  keyId: idOf(key),
  bundleId,
  ...(role !== undefined && { role }),
});

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

async function keys(rotation: Partial<RotationInForce>, role: RoleFileOptions = {}) {
  installKeys(folder, [plain]);
  installRole(folder, 'customer', { keys: [customer], mayRotate: true, ...role });
  const own = await loadTrustedKeys(folder, new AbortController().signal);
  const all = withRotation(own, { keys: [], revoked: [], ...rotation });
  return {
    plain: all.keys.map(({ keyId }) => keyId),
    inRole: all.roles[0]?.keys.map(({ keyId }) => keyId) ?? [],
    problems: all.problems.map(({ message }) => message).join('\n'),
  };
}

describe('keys that bundles brought into a role', () => {
  it('count in that role only', async () => {
    const found = await keys({ keys: [brought(next, 'customer')] });
    expect(found.plain).toEqual([idOf(plain)]);
    expect(found.inRole).toEqual([idOf(customer), idOf(next)]);
  });

  it('do not count while the role does not allow it, and without their role', async () => {
    const forbidden = await keys({ keys: [brought(next, 'customer')] }, { mayRotate: false });
    expect(forbidden.inRole).toEqual([idOf(customer)]);
    expect(forbidden.problems).toContain('role customer does not allow it (may_rotate)');
    const gone = await keys({ keys: [brought(next, 'other')] });
    expect([...gone.plain, ...gone.inRole]).not.toContain(idOf(next));
    expect(gone.problems).toContain('there is no role other in force');
  });

  it('take no key from the plain keys, present or brought', async () => {
    const own = await keys({ keys: [brought(plain, 'customer')] });
    expect(own.plain).toEqual([idOf(plain)]);
    expect(own.inRole).toEqual([idOf(customer)]);
    expect(own.problems).toContain('it is a plain key');
    const later = await keys({ keys: [brought(next, 'customer'), brought(next)] });
    expect(later.plain).toEqual([idOf(plain), idOf(next)]);
    expect(later.inRole).toEqual([idOf(customer)]);
  });

  it('take no key from another role', async () => {
    const other = sampleKey('other');
    installRole(folder, 'other', { keys: [other], mayRotate: true });
    const found = await keys({ keys: [brought(other, 'customer')] });
    expect(found.inRole).toEqual([idOf(customer)]);
    expect(found.problems).toContain('it belongs to role other');
  });

  it('are at most so many that a role has 64', async () => {
    const many = Array.from({ length: 70 }, () => brought(sampleKey(), 'customer'));
    const found = await keys({ keys: many });
    expect(found.inRole).toHaveLength(64);
    expect(found.problems).toContain('role customer has 64 keys already');
  });
});

describe('plain keys that bundles brought', () => {
  it('take no key from a role', async () => {
    const found = await keys({ keys: [brought(customer)] });
    expect(found.plain).toEqual([idOf(plain)]);
    expect(found.inRole).toEqual([idOf(customer)]);
    expect(found.problems).toContain('it belongs to role customer');
  });

  it('bring no key back that stands in a role and in a *.pub', async () => {
    installKeys(folder, [customer]);
    const found = await keys({ keys: [brought(customer), brought(customer, 'customer')] });
    expect([...found.plain, ...found.inRole]).toEqual([idOf(plain)]);
  });
});

describe('the name of a key that a bundle brought', () => {
  const namesOf = async (...added: RotationInForce['keys']) => {
    installKeys(folder, [plain]);
    installRole(folder, 'customer', { keys: [customer], mayRotate: true });
    const own = await loadTrustedKeys(folder, new AbortController().signal);
    const all = withRotation(own, { keys: added, revoked: [] });
    const found = [...all.keys, ...(all.roles[0]?.keys ?? [])];
    return added.map(({ keyId }) => found.find((key) => key.keyId === keyId)?.name);
  };
  const other = sampleKey('other');
  const short = (key: SampleKey) => idOf(key).slice(0, 12);

  it('is what the bundle calls it, else the first digits of its id', async () => {
    expect(await namesOf({ ...brought(next), name: 'next' }, brought(other))).toEqual(['next', short(other)]);
    expect(await namesOf({ ...brought(next, 'customer'), name: 'next' })).toEqual(['customer/next']);
  });

  it('never is that of another key', async () => {
    const [first, second] = await namesOf(
      { ...brought(next), name: 'factory' },
      { ...brought(other), name: 'factory' },
    );
    expect([first, second]).toEqual([`factory-${short(next)}`, `factory-${short(other)}`]);
    const twice = await namesOf({ ...brought(next), name: 'new' }, { ...brought(other), name: 'new' });
    expect(twice).toEqual(['new', `new-${short(other)}`]);
  });
});

describe('revocations', () => {
  it.each([
    ['of a role count in that role only', { role: 'customer', plain: 1, inRole: 0 }],
    ['of another role do not count in this one', { role: 'other', plain: 1, inRole: 1 }],
    ['of plain keys do not count in a role', { role: undefined, plain: 0, inRole: 1 }],
  ])('by bundles %s', async (_name, { role, ...left }) => {
    const found = await keys({ revoked: [revoked(plain, role), revoked(customer, role)] });
    expect({ plain: found.plain.length, inRole: found.inRole.length }).toEqual(left);
  });

  it('of the administrator count everywhere', async () => {
    const found = await keys({ revoked: [{ keyId: idOf(plain) }, { keyId: idOf(customer) }] });
    expect([...found.plain, ...found.inRole]).toEqual([]);
  });

  it('by a role of a key that plain keys bring later do not keep it away', async () => {
    const found = await keys({ keys: [brought(next)], revoked: [revoked(next, 'customer')] });
    expect(found.plain).toContain(idOf(next));
  });
});

describe('a role with fewer keys than its threshold', () => {
  const LACKS = 'role customer asks for 2 distinct keys, and has';

  it('is told, whether its file or a revocation is the reason', async () => {
    const short = await keys({}, { threshold: 2 });
    expect(short.problems).toMatch(new RegExp(`^${LACKS} customer/[0-9a-f]{12}: nothing can be trusted by it$`));
    const byRevocation = await keys({ revoked: [revoked(next, 'customer')] }, { keys: [customer, next], threshold: 2 });
    expect(byRevocation.problems).toContain(LACKS);
  });

  it('is not told where a bundle brought the keys that it lacks', async () => {
    expect((await keys({ keys: [brought(next, 'customer')] }, { threshold: 2 })).problems).toBe('');
    const gone = { keys: [brought(next, 'customer')], revoked: [revoked(next, 'customer')] };
    expect((await keys(gone, { threshold: 2 })).problems).toContain(LACKS);
  });
});
