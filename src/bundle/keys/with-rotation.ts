import type { RotatedKey } from '../../domain/trust/key-rotation.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { limits } from '../limits.ts';
import { parsePublicKey } from './keys.ts';
import type { KeyProblem } from './keys-folder.ts';
import { keysInForce, type ScopedRevocation, type TrustedKey, type TrustedKeys } from './trusted-keys.ts';

/** What came by rotation, and what is remembered of revocations. */
export interface RotationInForce {
  /** In the order of adoption. */
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly ScopedRevocation[];
  /** What keeps earlier revocations from being known. Default none. */
  readonly problems?: readonly KeyProblem[];
}

/**
 * The keys of a folder together with those that came by rotation (bundle format, `trust`) and with
 * revocations from elsewhere: by rotation, by a person, and those that files named which are gone.
 * Revocations add up: a key that any of them revokes does not count where it was revoked, whoever
 * publishes it.
 *
 * A key counts in one place only. What the folder says comes first, then what was brought among the
 * plain keys, then what was brought into roles, the earlier one first. So no role can take a key
 * from the plain keys or from another role by bringing it, and no bundle of plain keys can take one
 * from a role. A key that was brought into a role counts while the role allows it (`may_rotate`).
 */
export function withRotation(own: TrustedKeys, rotation: RotationInForce): TrustedKeys {
  const problems = [...own.problems, ...(rotation.problems ?? [])];
  const ofRoles = own.roles.flatMap(({ keys }) => keys);
  const taken = new Map<string, string | undefined>([...own.keys, ...ofRoles].map((key) => [key.keyId, key.role]));
  const added: TrustedKey[] = [];
  const isPlain = ({ role }: RotatedKey) => role === undefined;
  for (const brought of [...rotation.keys.filter(isPlain), ...rotation.keys.filter((key) => !isPlain(key))]) {
    const why = whyNot(brought, own, taken, added);
    // Parsed only now: a key costs some milliseconds, and a role may have brought thousands.
    const key = why === undefined ? readBrought(brought, problems) : undefined;
    if (why !== undefined) problems.push(unused(brought, why));
    if (key === undefined) continue;
    taken.set(key.keyId, key.role);
    added.push(key);
  }
  return keysInForce({
    ...own,
    problems,
    published: [...own.keys, ...ofRoles, ...added],
    revoked: [...own.byFile, ...rotation.revoked],
  });
}

function readBrought({ keyId, pem, role }: RotatedKey, problems: KeyProblem[]): TrustedKey | undefined {
  const short = keyId.slice(0, 12);
  const name = role === undefined ? short : `${role}/${short}`;
  try {
    return { name, ...parsePublicKey(pem, `${name} (by rotation)`), ...(role !== undefined && { role }) };
  } catch (error) {
    const remedy = 'have the factory bring another key';
    problems.push({ file: name, message: reasonOf(error), remedy, hidesRevocations: false });
    return undefined;
  }
}

/** Why a key that was brought does not count, as a clause, and what to do. */
interface Unused {
  readonly why: string;
  readonly remedy: string;
}

/** @returns undefined when the key may count */
function whyNot(
  { keyId, role: name }: RotatedKey,
  own: TrustedKeys,
  taken: ReadonlyMap<string, string | undefined>,
  added: readonly TrustedKey[],
): Unused | undefined {
  // Never the advice to revoke a key that somebody else counts on: a bundle could ask for that.
  const ask = 'ask whoever signed that bundle why it names this key; it counts where it is listed';
  if (own.ambiguous.has(keyId)) return { why: 'it stands in two places of keys.d', remedy: 'leave it in one of them' };
  if (taken.has(keyId) && taken.get(keyId) !== name) {
    const other = taken.get(keyId);
    return { why: other === undefined ? 'it is a plain key' : `it belongs to role ${other}`, remedy: ask };
  }
  if (name === undefined) return undefined;
  const role = own.roles.find((one) => one.name === name);
  const revoke = `name it in a *.revoked file if it is not to count later either: ${keyId}`;
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
