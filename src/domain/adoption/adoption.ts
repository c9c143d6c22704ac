import { defined } from '../../platform/defined.ts';
import type { SignerRole, VerifiedBundle } from '../model/bundle.ts';
import type { PhaseOf } from '../model/condition.ts';
import type { BundleId } from '../model/digest.ts';
import type { NodeFacts } from '../model/machine.ts';
import { type AdoptionReason, labelOf, type TrustReason } from '../model/reason.ts';
import { fitsScheme } from '../model/version.ts';
import type { Floors } from '../state/release-record.ts';
import type { StoredBundle } from '../state/state.ts';
import { type Approvals, isApproved, needsApproval, type Revocations, rejectionOf } from '../trust/approval.ts';
import {
  authoritiesOf,
  outsideScope,
  plainSigners,
  type Role,
  type SignedBundle,
  signersLeftIn,
} from '../trust/role.ts';
import { isRelease, type TrustInForce } from '../trust/trust-in-force.ts';
import { CREATED_AHEAD_MS, floorsNow, type KnownBundles } from './floors.ts';

export interface AdoptionContext {
  readonly known: KnownBundles;
  readonly arch: string;
  readonly now: number;
  readonly clockSynchronised: boolean;
  /** Setting `update.allow_downgrade`. Default false. */
  readonly allowDowngrade?: boolean;
  /** Setting `trust.max_sequence_step`. Default 0, which allows any step. */
  readonly maxSequenceStep?: number;
  /** The base of the step, by stream. Default: the highest sequence that is known now. */
  readonly stepFrom?: ReadonlyMap<string, number>;
  /** These pins belong to no known release. Default: none. */
  readonly unclaimed?: ReadonlySet<string>;
  /** The node adopted it before it was forgotten or its records were lost. Default false. */
  readonly wasAdopted?: boolean;
}

/** Whether the bundle was adopted before its records were lost: its images have unclaimed pins. */
export function isClaim({ contents }: VerifiedBundle, unclaimed: ReadonlySet<string>): boolean {
  const pinned = contents.images.filter((image) => image.pin);
  return pinned.length > 0 && pinned.every(({ reference }) => unclaimed.has(reference));
}

/**
 * Returns why an unknown, verified bundle is refused. Sequence and expiry are checked only at
 * adoption (docs/decisions/trust.md). The rules are those of the bundle format, "Payload".
 * `src/bundle/format` checks the form of each member.
 */
export function refuseAdoption(found: VerifiedBundle, context: AdoptionContext): AdoptionReason | undefined {
  const wrong =
    refuseArch(found, context) ??
    refuseTwin(found, context) ??
    refuseVersion(found, context) ??
    refuseBase(found, context);
  const wasKnown = context.wasAdopted === true || isClaim(found, context.unclaimed ?? new Set());
  if (wrong !== undefined || wasKnown) return wrong;
  return refuseSequence(found, context) ?? refuseStep(found, context) ?? refuseTimes(found, context);
}

/** Bundle format, `arch`. */
function refuseArch({ payload }: VerifiedBundle, { arch }: AdoptionContext): AdoptionReason | undefined {
  if (payload.arch === arch) return undefined;
  return { code: 'bundle/arch', data: { bundle: labelOf(payload), bundleArch: payload.arch, nodeArch: arch } };
}

/** Bundle format, "Versions": the first release on the node settles the scheme of the stream. */
function refuseVersion(found: VerifiedBundle, { known }: AdoptionContext): AdoptionReason | undefined {
  const { payload } = found;
  const scheme = isRelease(found) ? known.stream(payload.name).scheme : undefined;
  if (scheme === undefined) return undefined;
  const isOther = payload.versionScheme !== undefined && payload.versionScheme !== scheme;
  if (!isOther && fitsScheme(payload.version, scheme)) return undefined;
  return { code: 'bundle/version', data: { bundle: labelOf(payload), scheme } };
}

/** Bundle format, `update.base`. An unknown base is checked when it is needed. */
function refuseBase({ payload }: VerifiedBundle, { known }: AdoptionContext): AdoptionReason | undefined {
  const { base: baseId } = payload.update ?? {};
  const base = baseId && known.get(baseId);
  if (base === undefined || base.payload.name === payload.name) return undefined;
  return { code: 'bundle/base', data: { bundle: labelOf(payload), base: labelOf(base.payload) } };
}

/** Bundle format, `sequence`. */
function refuseSequence({ payload }: VerifiedBundle, context: AdoptionContext): AdoptionReason | undefined {
  if (context.allowDowngrade === true) return undefined;
  const { floor } = context.known.stream(payload.name);
  const { sequence } = payload;
  if (sequence >= floor) return undefined;
  return { code: 'bundle/sequence', data: { kind: 'below-floor', bundle: labelOf(payload), sequence, floor } };
}

/** Returns the highest activated sequence of each stream, or else the highest adopted one. */
export function sequencesOf(bundles: readonly StoredBundle[], floors: Floors): ReadonlyMap<string, number> {
  const sequences = new Map<string, number>();
  for (const { payload, resetAt } of bundles) {
    if (resetAt !== undefined) continue;
    sequences.set(payload.name, Math.max(sequences.get(payload.name) ?? 0, payload.sequence));
  }
  const activated = [...floorsNow(floors, bundles).sequences].filter(([, sequence]) => sequence > 0);
  return new Map([...sequences, ...activated]);
}

/**
 * `trust.max_sequence_step`: a sequence far above all others would block its stream. Bundles from
 * the same stick do not raise the limit, so that one stick can't raise it step by step.
 */
function refuseStep({ payload }: VerifiedBundle, context: AdoptionContext): AdoptionReason | undefined {
  const { known, maxSequenceStep = 0, stepFrom } = context;
  const { name, sequence } = payload;
  const { floor, lowest, ...stream } = known.stream(name);
  const highest = Math.max(floor, stream.highest);
  if (maxSequenceStep === 0 || highest === 0) return undefined;
  const from = stepFrom === undefined ? highest : (stepFrom.get(name) ?? Math.min(highest, lowest));
  if (sequence - from <= maxSequenceStep) return undefined;
  const data = { kind: 'step', bundle: labelOf(payload), sequence, highest: from, step: maxSequenceStep } as const;
  return { code: 'bundle/sequence', data };
}

/** Bundle format, `sequence`: another bundle has the same sequence. */
function refuseTwin({ bundleId, payload }: VerifiedBundle, { known }: AdoptionContext): AdoptionReason | undefined {
  const twin = known.stream(payload.name).bySequence.get(payload.sequence);
  if (twin === undefined || twin.bundleId === bundleId) return undefined;
  return {
    code: 'bundle/sequence',
    data: {
      kind: 'same',
      bundle: labelOf(payload),
      bundleId,
      sequence: payload.sequence,
      known: labelOf(twin.payload),
      knownId: twin.bundleId,
    },
  };
}

/** Bundle format, `created` and `expires`. Only a synchronised clock refuses a future `created`. */
function refuseTimes({ payload }: VerifiedBundle, context: AdoptionContext): AdoptionReason | undefined {
  const now = Math.max(context.now, context.known.stream(payload.name).newestCreated);
  if (payload.expires !== undefined && Date.parse(payload.expires) <= now) {
    return { code: 'bundle/expired', data: { bundle: labelOf(payload), expires: payload.expires } };
  }
  if (context.clockSynchronised && Date.parse(payload.created) > context.now + CREATED_AHEAD_MS) {
    return { code: 'bundle/from-the-future', data: { bundle: labelOf(payload), created: payload.created } };
  }
  return undefined;
}

type Admission =
  | { readonly kind: 'adopt' }
  | { readonly kind: 'refuse'; readonly reason: AdoptionReason | TrustReason }
  /** Only the approval is missing. The bundle's floor, keys and advisories do not count yet. */
  | { readonly kind: 'await-approval'; readonly reason: TrustReason };

export function admit(
  found: VerifiedBundle,
  context: AdoptionContext,
  approvals: Approvals,
  medium: string,
): Admission {
  const refusal = refuseAdoption(found, context);
  if (refusal !== undefined) return { kind: 'refuse', reason: refusal };
  const { bundleId, signedBy } = found;
  const bundle = labelOf(found.payload);
  const rejected = rejectionOf(found, approvals);
  if (rejected !== undefined) {
    return {
      kind: 'refuse',
      reason: { code: 'trust/rejected', data: { kind: 'found', bundleId, bundle, ...rejected } },
    };
  }
  if (!needsApproval(found, approvals)) return { kind: 'adopt' };
  const data = { kind: 'found', bundleId, bundle, medium, signedBy } as const;
  return { kind: 'await-approval', reason: { code: 'trust/approval', data } };
}

/** Decides about a bundle without a trusted signature (`trust.require = "approval"`). */
export function admitUnapproved(
  bundleId: BundleId,
  approvals: Approvals,
  medium: string,
): Exclude<Admission, { kind: 'adopt' }> {
  const rejected = rejectionOf({ bundleId }, approvals);
  if (rejected !== undefined) {
    return { kind: 'refuse', reason: { code: 'trust/rejected', data: { kind: 'found', bundleId, ...rejected } } };
  }
  return {
    kind: 'await-approval',
    reason: { code: 'trust/approval', data: { kind: 'found-unsigned', bundleId, medium } },
  };
}

/** All lists are sorted. */
export type Signers = Pick<VerifiedBundle, 'signedBy' | 'signerKeyIds' | 'signerRoles'>;

/**
 * Returns the signers of an adopted bundle when plugged media show more than is stored. Signers add
 * up: a removed key that is not revoked still counts. A role key that becomes a plain key counts
 * for everything. A key moves to another role only when the bundle is no longer trusted, so that a
 * move never ends trust.
 */
export function newSignersOf(
  { signedBy, signerKeyIds, signerRoles = [] }: StoredBundle,
  carriers: readonly { readonly found: { readonly bundle: VerifiedBundle } }[],
  isTrusted: boolean,
): Signers | undefined {
  const seen = carriers.map(({ found }) => found.bundle);
  const known = new Set(signerKeyIds);
  const ids = new Set([...known, ...seen.flatMap((bundle) => bundle.signerKeyIds)]);
  const nowPlain = new Set(seen.flatMap(plainSigners));
  const shown = seen.flatMap((bundle) => bundle.signerRoles ?? []);
  const moved = isTrusted ? [] : movedAmong(shown, signerRoles).filter(({ keyId }) => !nowPlain.has(keyId));
  const noLongerInRole = new Set([...nowPlain, ...moved.map(({ keyId }) => keyId)]);
  const kept = signerRoles.filter(({ keyId }) => !noLongerInRole.has(keyId));
  const isSame = ids.size === known.size && kept.length === signerRoles.length && moved.length === 0;
  if (isSame) return undefined;
  const fresh = shown.filter(({ keyId }) => !known.has(keyId));
  const names = new Set([...withoutMoved(signedBy, signerRoles, kept), ...seen.flatMap((bundle) => bundle.signedBy)]);
  const roles = new Map([...fresh, ...moved, ...kept].map((one) => [one.keyId, one] as const));
  return {
    signedBy: [...names].sort(),
    signerKeyIds: [...ids].sort(),
    ...(roles.size > 0 && { signerRoles: [...roles.values()].sort((a, b) => (a.keyId < b.keyId ? -1 : 1)) }),
  };
}

/** Returns keys with another role than the stored one. Old reads of media may still show it. */
function movedAmong(shown: readonly SignerRole[], stored: readonly SignerRole[]): readonly SignerRole[] {
  const isAmong = (roles: readonly SignerRole[], { keyId, role }: SignerRole) =>
    roles.some((one) => one.keyId === keyId && one.role === role);
  const inPlace = stored.filter((one) => isAmong(shown, one)).map(({ keyId }) => keyId);
  return shown.filter(({ keyId }) => stored.some((one) => one.keyId === keyId) && !inPlace.includes(keyId));
}

function withoutMoved(
  names: readonly string[],
  before: readonly SignerRole[],
  kept: readonly SignerRole[],
): readonly string[] {
  const gone = before.map(({ role }) => role).filter((name) => kept.every(({ role }) => role !== name));
  return names.filter((name) => gone.every((role) => !name.startsWith(`${role}/`)));
}

export type Withdrawal = PhaseOf & { readonly reason: TrustReason };

/** A known bundle, or the record of a forgotten one. */
type JudgedBundle = SignedBundle & Pick<StoredBundle, 'bundleId' | 'readyAt'>;

interface SignersInForce {
  readonly revocations: Revocations;
  readonly roles?: readonly Role[];
  readonly facts?: Pick<NodeFacts, 'keepsOnly'>;
  readonly trust?: Pick<TrustInForce, 'revoked'>;
}

/**
 * Returns why an adopted bundle is no longer trusted (docs/decisions/trust.md,
 * docs/decisions/key-roles.md). Revoked keys never count. Keys that were removed from keys.d still
 * count. Keys of a role count while the role is in force and covers the bundle. While the settings
 * are wrong, only rejections and revocations end trust.
 */
export function withdrawalOf(
  bundle: JudgedBundle,
  inForce: SignersInForce,
  approvals: Approvals,
): Withdrawal | undefined {
  const { bundleId, readyAt } = bundle;
  const adopted = { kind: 'adopted', bundleId, bundle: labelOf(bundle.payload) } as const;
  const rejected = rejectionOf(bundle, approvals);
  if (rejected !== undefined) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/rejected', data: { ...adopted, ...rejected } } };
  }
  if (readyAt === undefined && needsApproval(bundle, approvals)) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/approval', data: adopted } };
  }
  if (approvals.policy.require === 'approval' && isApproved(bundle, approvals)) return undefined;
  const reason = lostSignature(bundle, inForce, approvals.policy.threshold);
  if (reason === undefined) return undefined;
  return isLostBySettings(bundle, reason, inForce) ? undefined : { phase: 'rejected', reason };
}

/** Whether only a person's approval is missing, and the signatures of the bundle still hold. */
export function awaitsPerson(bundle: JudgedBundle, inForce: SignersInForce, { policy }: Approvals): boolean {
  const approved = { bundleId: bundle.bundleId, verdict: 'approved', at: 0 } as const;
  return withdrawalOf(bundle, inForce, { policy, verdicts: [approved] }) === undefined;
}

/** Wrong settings may name another folder, which lacks the roles in which a key was revoked. */
function isLostBySettings({ signerKeyIds }: JudgedBundle, { code }: TrustReason, inForce: SignersInForce) {
  if (inForce.facts?.keepsOnly !== true || (code !== 'trust/role' && code !== 'trust/threshold')) return false;
  const revoked = [...inForce.revocations.keyIds, ...(inForce.trust?.revoked ?? []).map(({ keyId }) => keyId)];
  return signerKeyIds.every((keyId) => !revoked.includes(keyId));
}

/** @returns undefined while enough signatures count */
function lostSignature(
  stored: JudgedBundle,
  { revocations, roles = [] }: SignersInForce,
  threshold: number,
): TrustReason | undefined {
  const { signedBy, signerKeyIds, signerRoles = [] } = stored;
  const bundle = labelOf(stored.payload);
  if (revocations.revocationsUnreadable) {
    return { code: 'trust/blind', data: defined({ bundle, cause: revocations.cause }) };
  }
  if (authoritiesOf(stored, { threshold, roles, revocations }).length > 0) return undefined;
  const inRole = new Set(
    signerRoles.filter(({ keyId, role }) => revocations.inRoles?.get(role)?.includes(keyId)).map(({ keyId }) => keyId),
  );
  const plain = plainSigners(stored);
  const revoked = signerKeyIds.filter(
    (keyId) => inRole.has(keyId) || (plain.includes(keyId) && revocations.keyIds.includes(keyId)),
  );
  if (revoked.length > 0) return { code: 'trust/key-revoked', data: { bundle, signedBy, keyIds: revoked } };
  return lostRole(stored, roles, revocations) ?? { code: 'trust/threshold', data: { bundle, signedBy, threshold } };
}

function lostRole(stored: JudgedBundle, roles: readonly Role[], revocations: Revocations): TrustReason | undefined {
  const [first] = stored.signerRoles ?? [];
  if (first === undefined) return undefined;
  const about = { bundle: labelOf(stored.payload), signedBy: stored.signedBy, role: first.role };
  const role = roles.find(({ name }) => name === first.role);
  if (role === undefined) return { code: 'trust/role', data: { ...about, why: { kind: 'no-role' } } };
  const outside = outsideScope(role, stored);
  if (outside !== undefined) return { code: 'trust/role', data: { ...about, why: outside } };
  const remaining = signersLeftIn(role, stored, revocations).length;
  return {
    code: 'trust/role',
    data: { ...about, why: { kind: 'threshold', threshold: role.threshold, left: remaining } },
  };
}
