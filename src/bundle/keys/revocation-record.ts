import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import type { RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { isRoleName } from '../../domain/trust/role.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

const keyId = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const time = v.pipe(v.number(), v.safeInteger());
/** Strict: a damaged member name must not count as an absent `checksum`. */
const documentSchema = v.strictObject({
  schemaVersion: v.literal(1),
  checksum: v.exactOptional(v.string()),
  folders: v.array(v.string()),
  revocations: v.array(
    v.object({
      keyId,
      otherIds: v.array(keyId),
      bundleId: v.exactOptional(v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value))),
      role: v.exactOptional(v.pipe(v.string(), v.check(isRoleName))),
      byPerson: v.exactOptional(v.literal(true)),
      at: time,
      restoredAt: v.exactOptional(time),
    }),
  ),
});

/** Equal records give equal texts. */
export function formatRevocationRecord({ folders, revocations }: RevocationRecord): string {
  const checksum = checksumOf({ folders, revocations });
  return `${JSON.stringify({ schemaVersion: 1, folders, revocations, checksum }, undefined, 1)}\n`;
}

/** A key id with one changed digit is another key: only a checksum shows that damage. */
function checksumOf({ folders, revocations }: RevocationRecord): string {
  return `sha256:${createHash('sha256')
    .update(JSON.stringify([folders, revocations]))
    .digest('hex')}`;
}

/** @throws AppError `bundle/revocation-record` (`wait`) when it is damaged */
export function parseRevocationRecord(text: string, name: string): RevocationRecord {
  try {
    const document: unknown = JSON.parse(text);
    const { folders, revocations, checksum } = v.parse(documentSchema, document);
    // Computed from the text, not from the parsed record, so that a damaged member name counts too.
    const isSame = checksum === undefined || checksum === checksumOf(document as RevocationRecord);
    if (!isSame) throw new Error('its checksum is wrong');
    return { folders, revocations };
  } catch (cause) {
    throw unreadable(name, 'is damaged', cause);
  }
}

function unreadable(name: string, what: string, cause: unknown) {
  const message = `${name}, which lists the revoked keys, ${what}: ${reasonOf(cause)}`;
  return bundleError('bundle/revocation-record', message, { cause });
}

/** A clause that says why no key counts: all keys that would count, at least one, are revoked. */
export function revokedClause(keys: readonly { readonly name: string }[]): string {
  return `${keys.map(({ name }) => name).join(', ')} ${keys.length === 1 ? 'is' : 'are'} revoked`;
}

/** The new key comes first, since an old one may be in the wrong hands. `keys`: at least one. */
export function newKeyRemedy(keys: readonly { readonly keyId: string }[], folder: string): string {
  const [first, second] = keys;
  const id = first === undefined || second !== undefined ? 'KEYID' : first.keyId.slice(0, 12);
  return `copy the .pub file of a new key to ${folder}, or, if the key was revoked by mistake, run 'stickpin trust restore ${id}'`;
}
