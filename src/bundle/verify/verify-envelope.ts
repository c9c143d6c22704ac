import type { BundleId } from '../../domain/model/digest.ts';
import { digestOf } from '../../platform/digest.ts';
import { bundleError } from '../bundle-error.ts';
import { type Envelope, type EnvelopeSignature, preAuthenticationEncoding } from '../format/dsse.ts';
import { isSignatureBy, shortKeyId } from '../keys/keys.ts';
import { keyProblemLine } from '../keys/keys-folder.ts';
import { newKeyRemedy, revokedClause } from '../keys/revocation-record.ts';
import type { Trust, TrustedKey, TrustedKeys } from '../keys/trust.ts';
import { limits } from '../limits.ts';

/** A payload with enough trusted signatures. What the keys may sign is checked later. */
export interface VerifiedPayload {
  readonly bundleId: BundleId;
  readonly payload: Buffer;
  /**
   * The distinct trusted keys that signed, those of roles among them; may be empty for a bundle
   * that is trusted by digest.
   */
  readonly signers: readonly TrustedKey[];
  /** Whether it is trusted by its digest, with any signer. */
  readonly isVouched: boolean;
}

/** The identity of a bundle: SHA-256 of its decoded payload. */
export function bundleIdOf(payload: Uint8Array): BundleId {
  return digestOf(payload);
}

/**
 * Decides whether an envelope may be trusted (DSSE protocol.md). No I/O. Each signature is tried
 * with the key that `keyid` hints at, then with the other trusted keys, {@link
 * limits.signatureTries} times in all; each key counts once. Enough are
 * `threshold` plain keys, or the role's own threshold of keys of one role; what the role may sign
 * is checked when the payload is parsed. A payload that is trusted by digest needs no signature.
 *
 * @throws AppError `bundle/no-key` (`wait`) nothing is trusted here;
 *   `bundle/revocations-unreadable` (`wait`) no key counts now; `bundle/unsigned` no signature at
 *   all; `bundle/bad-signature` a signature of a trusted key does not match; `bundle/unknown-key`
 *   signed by others only; `bundle/revoked-key` signed with a revoked key (`wait` where no
 *   other key is trusted); `bundle/threshold` signed by too few.
 */
export async function verifyEnvelope(envelope: Envelope, trust: Trust): Promise<VerifiedPayload> {
  const keys = allKeys(trust.keys);
  const bundleId = bundleIdOf(envelope.payload);
  const isVouched = trust.vouched?.has(bundleId) === true;
  if (keys.length === 0 && !isVouched) throw noKey(envelope, trust);
  if (envelope.signatures.length === 0 && !isVouched) {
    throw bundleError('bundle/unsigned', 'bundle.dsse.json carries no signature: sign it with stickpin bundle sign');
  }
  const signers = await signersOf(envelope, keys);
  if (!isVouched && !areEnough(signers, trust)) throw tooFew(envelope, trust, signers);
  return { bundleId, payload: envelope.payload, signers, isVouched };
}

function allKeys({ keys, roles }: TrustedKeys): readonly TrustedKey[] {
  return [...keys, ...roles.flatMap((role) => role.keys)];
}

/** Signatures of different roles are not added up. */
function areEnough(signers: readonly TrustedKey[], { keys, threshold }: Trust): boolean {
  const countIn = (role: string | undefined) => signers.filter((key) => key.role === role).length;
  return countIn(undefined) >= threshold || keys.roles.some((role) => countIn(role.name) >= role.threshold);
}

async function signersOf(envelope: Envelope, keys: readonly TrustedKey[]): Promise<readonly TrustedKey[]> {
  const covered = preAuthenticationEncoding(envelope.payloadType, envelope.payload);
  const signers = new Map<string, TrustedKey>();
  const matched = new Set<EnvelopeSignature>();
  let tries = 0;
  for (const [of, key] of pairsOf(envelope, keys)) {
    if (matched.has(of) || signers.has(key.keyId)) continue;
    if (tries === limits.signatureTries) break;
    tries += 1;
    if (!(await isSignatureBy(key, of.signature, covered))) continue;
    matched.add(of);
    signers.set(key.keyId, key);
  }
  return [...signers.values()];
}

/** Signatures and the keys to try on them, hinted ones first. */
function* pairsOf(
  { signatures }: Envelope,
  keys: readonly TrustedKey[],
): Generator<readonly [EnvelopeSignature, TrustedKey]> {
  for (const isHinted of [true, false]) {
    for (const of of signatures) {
      for (const key of keys) if ((key.keyId === of.keyId) === isHinted) yield [of, key];
    }
  }
}

function noKey({ signatures }: Envelope, { keys }: Trust) {
  if (keys.revocationsUnreadable) return unreadable(keys);
  const { folder, revokedKeys } = keys;
  const revoked = signatures.find(({ keyId }) => keys.revokedIds.has(keyId));
  if (revoked !== undefined) {
    const key = shortKeyId(revoked.keyId);
    const message = `signature by revoked key ${key}, which does not count, and no other key is trusted`;
    return bundleError('bundle/revoked-key', `${message}: ${newKeyRemedy([revoked], folder)}`, { disposition: 'wait' });
  }
  if (revokedKeys.length > 0) {
    const why = `no key is trusted, since ${revokedClause(revokedKeys)}`;
    return bundleError('bundle/no-key', `${why}: ${newKeyRemedy(revokedKeys, folder)}`);
  }
  const bad = keys.problems.length === 0 ? '' : ` (${keys.problems.map((problem) => problem.message).join('; ')})`;
  const message = `no trusted key is installed in ${folder}${bad}: copy the factory's .pub file to ${folder}`;
  return bundleError('bundle/no-key', message);
}

function unreadable({ problems }: TrustedKeys) {
  const why = problems.filter(({ hidesRevocations }) => hidesRevocations).map(keyProblemLine);
  const message = `revocations can't be read, so no key counts: ${why.join('; ')}`;
  return bundleError('bundle/revocations-unreadable', message);
}

function tooFew(envelope: Envelope, { keys, threshold }: Trust, signers: readonly TrustedKey[]) {
  const claimed = envelope.signatures.filter(({ keyId }) => !signers.some((signer) => signer.keyId === keyId));
  for (const { keyId } of claimed) {
    const known = allKeys(keys).find((key) => key.keyId === keyId);
    if (known === undefined) continue;
    return bundleError(
      'bundle/bad-signature',
      `signature by ${known.name} (${shortKeyId(keyId)}) does not match bundle.dsse.json: it was altered or damaged after signing; copy the bundle again from its origin`,
    );
  }
  const revoked = claimed.find(({ keyId }) => keys.revokedIds.has(keyId));
  if (revoked !== undefined) {
    return bundleError(
      'bundle/revoked-key',
      `signature by revoked key ${shortKeyId(revoked.keyId)}, which does not count: bring a bundle signed by a key that is still trusted`,
    );
  }
  if (signers.length === 0) {
    const pairs = envelope.signatures.length * allKeys(keys).length;
    if (pairs > limits.signatureTries) {
      const most = `only ${limits.signatureTries} pairs of a signature and a key are tried`;
      return bundleError(
        'bundle/unknown-key',
        `none of its ${envelope.signatures.length} signatures was found to be by a key in ${keys.folder}, and ${most}: have it signed again with stickpin bundle sign, which names the key`,
      );
    }
    const ids = claimed.map(({ keyId }) => shortKeyId(keyId)).join(', ');
    return bundleError(
      'bundle/unknown-key',
      `signature by unknown key ${ids}: no key in ${keys.folder} matches; if you trust the signer, copy its .pub file there`,
    );
  }
  const names = signers.map((signer) => signer.name).sort();
  return bundleError(
    'bundle/threshold',
    `signed by ${names.join(', ')} only, and ${wantedOf(signers, keys, threshold)} are required: have it signed again with stickpin bundle sign`,
  );
}

/** The required number of keys, for each kind of key that signed. */
function wantedOf(signers: readonly TrustedKey[], { roles }: TrustedKeys, threshold: number): string {
  const of = roles.filter(({ name }) => signers.some(({ role }) => role === name));
  const plain = `${threshold} distinct trusted keys`;
  const roleThresholds = of.map((role) => `${role.threshold} of role ${role.name}`);
  const isPlain = roleThresholds.length === 0 || signers.some(({ role }) => role === undefined);
  return [...(isPlain ? [plain] : []), ...roleThresholds].join(' or ');
}
