import type { RotatedKey } from '../../domain/trust/approval.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { limits } from '../limits.ts';
import { parsePublicKey } from './keys.ts';
import type { KeyProblem } from './keys-folder.ts';
import { shortRole } from './roles.ts';
import { keysInForce, type ScopedRevocation, type TrustedKey, type TrustedKeys } from './trusted-keys.ts';

export interface RotationInForce {
  /** The keys in the order of adoption. */
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly ScopedRevocation[];
  /** They hide earlier revocations. Default: none. */
  readonly problems?: readonly KeyProblem[];
}

/**
 * Joins the keys of a folder, keys that bundles added (bundle format, `trust`), and revocations by
 * bundles, by a person, and by files that no longer exist. Revocations add up: a key does not count
 * where any of them revokes it.
 *
 * A key counts in one place only. The folder decides first, then keys added as plain keys, then
 * keys added to roles, earlier ones first. So no role can take a key from the plain keys or from
 * another role, and no bundle of plain keys can take one from a role. A key that was added to a
 * role counts while the role allows it (`may_rotate`).
 */
export function withRotation(folderKeys: TrustedKeys, rotation: RotationInForce): TrustedKeys {
  const problems = [...folderKeys.problems, ...(rotation.problems ?? [])];
  const ofRoles = folderKeys.roles.flatMap(({ keys }) => keys);
  const taken = new Map<string, string | undefined>(
    [...folderKeys.keys, ...ofRoles].map((key) => [key.keyId, key.role]),
  );
  const added: TrustedKey[] = [];
  const isPlain = ({ role }: RotatedKey) => role === undefined;
  const inOrder = [...rotation.keys.filter(isPlain), ...rotation.keys.filter((key) => !isPlain(key))];
  const firstOnes = new Map(inOrder.toReversed().map((key) => [`${key.keyId} ${key.role ?? ''}`, key]));
  for (const brought of inOrder.filter((key) => firstOnes.get(`${key.keyId} ${key.role ?? ''}`) === key)) {
    const why = whyNot(brought, folderKeys, taken, added);
    // Parsed late: a key takes some milliseconds, and a role may have added thousands.
    const key =
      why === undefined ? readBrought(brought, [...folderKeys.keys, ...ofRoles, ...added], problems) : undefined;
    if (why !== undefined) problems.push(unused(brought, why));
    if (key === undefined) continue;
    taken.set(key.keyId, key.role);
    added.push(key);
  }
  return withShortRoles(
    keysInForce({
      ...folderKeys,
      problems,
      published: [...folderKeys.keys, ...ofRoles, ...folderKeys.revokedKeys, ...added],
      revoked: [...folderKeys.byFile, ...rotation.revoked],
    }),
  );
}

/**
 * Roles without enough keys are known only after all joins. While a revocation may be hidden, no
 * key counts at all.
 */
function withShortRoles(keys: TrustedKeys): TrustedKeys {
  if (keys.revocationsUnreadable) return keys;
  const short = keys.roles.flatMap((role) => shortRole(role, role.keys) ?? []);
  return { ...keys, problems: [...keys.problems, ...short] };
}

function readBrought(brought: RotatedKey, others: readonly TrustedKey[], problems: KeyProblem[]) {
  const { pem, role } = brought;
  const name = nameOf(brought, others);
  try {
    return { name, ...parsePublicKey(pem, `${name} (by rotation)`), ...(role !== undefined && { role }) };
  } catch (error) {
    const remedy = 'ask the factory for another key';
    problems.push({ file: name, message: reasonOf(error), remedy, hidesRevocations: false });
    return undefined;
  }
}

/**
 * The name or, if another key has it, the name with digits of the id; without a name the digits.
 */
function nameOf({ keyId, name, role }: RotatedKey, others: readonly TrustedKey[]): string {
  const short = keyId.slice(0, 12);
  const within = (text: string) => (role === undefined ? text : `${role}/${text}`);
  if (name === undefined) return within(short);
  const isTaken = others.some((other) => other.keyId !== keyId && other.name === within(name));
  return within(isTaken ? `${name}-${short}` : name);
}

interface Unused {
  readonly why: string;
  readonly remedy: string;
}

function whyNot(
  { keyId, role: name }: RotatedKey,
  fileKeys: TrustedKeys,
  taken: ReadonlyMap<string, string | undefined>,
  added: readonly TrustedKey[],
): Unused | undefined {
  // The advice never is to revoke a key that is in use elsewhere: a bundle could provoke that.
  const ask = 'ask the signer of that bundle why it names this key; the key counts where it is listed';
  if (fileKeys.ambiguous.has(keyId)) return { why: 'it is in two places of keys.d', remedy: 'leave it in one of them' };
  if (taken.has(keyId) && taken.get(keyId) !== name) {
    const other = taken.get(keyId);
    return { why: other === undefined ? 'it is a plain key' : `it belongs to role ${other}`, remedy: ask };
  }
  if (name === undefined) return undefined;
  const role = fileKeys.roles.find((one) => one.name === name);
  const revoke = `to keep it from counting later, name it in a *.revoked file: ${keyId}`;
  if (role === undefined) return { why: `there is no role ${name} in force`, remedy: revoke };
  if (!role.mayRotate) return { why: `role ${name} does not allow it (may_rotate)`, remedy: revoke };
  const count = role.keys.length + added.filter((key) => key.role === name).length;
  if (taken.has(keyId) || count < limits.roleKeys) return undefined;
  return {
    why: `role ${name} has ${limits.roleKeys} keys already`,
    remedy: 'put the keys that count into the file of the role',
  };
}

function unused({ keyId, role }: RotatedKey, { why, remedy }: Unused): KeyProblem {
  const where = role === undefined ? 'among the plain keys' : `into role ${role}`;
  const short = keyId.slice(0, 12);
  const message = `key ${short}… that a bundle brought ${where} does not count: ${why}`;
  return { file: short, message, remedy, hidesRevocations: false };
}
