import { bundleName, type Contents, type Payload, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { hasRotation } from '../../domain/trust/approval.ts';
import {
  allowsRotation,
  authoritiesOf,
  coversStream,
  type OutsideScope,
  outsideScope,
  type Role,
  type SignatureRules,
} from '../../domain/trust/role.ts';
import { bundleError } from '../bundle-error.ts';
import type { Trust, TrustedKey } from '../keys/trusted-keys.ts';
import type { VerifiedPayload } from './verify-envelope.ts';

/** Comes before anything else is read. @throws AppError `bundle/outside-role` */
export function checkStream(verified: VerifiedPayload, payload: Payload, trust: Trust): void {
  if (verified.isVouched || hasPlainSigners(verified, trust)) return;
  const met = rolesMet(verified.signers, trust);
  if (met.some((role) => coversStream(role, payload.name))) return;
  throw outside(payload, met, () => ({ kind: 'stream', stream: payload.name }));
}

/**
 * Keeps plain keys, and keys of roles that cover the stream and all its repositories.
 *
 * @throws AppError `bundle/outside-role` when too few remain and the bundle is not vouched for
 */
export function checkScope(
  verified: VerifiedPayload,
  { payload, contents }: { readonly payload: Payload; readonly contents: Contents },
  trust: Trust,
): VerifiedBundle {
  const outsideOf = new Map(trust.keys.roles.map((role) => [role.name, limitPassed(role, { payload, contents })]));
  const signers = verified.signers.filter(({ role }) => role === undefined || outsideOf.get(role) === undefined);
  const bundle = withSigners({ bundleId: verified.bundleId, payload, contents }, signers);
  if (!verified.isVouched && authoritiesOf(bundle, rulesOf(trust)).length === 0) {
    throw outside(payload, rolesMet(verified.signers, trust), ({ name }) => outsideOf.get(name));
  }
  return bundle;
}

type LimitPassed = OutsideScope | { readonly kind: 'keep' };

/** A role that loses the right to keep releases for life keeps those that it has. */
function limitPassed(role: Role, bundle: { readonly payload: Payload; readonly contents: Contents }) {
  const keeps: LimitPassed | undefined =
    bundle.payload.keep === 'life' && !role.mayKeepForLife ? { kind: 'keep' } : undefined;
  return outsideScope(role, bundle) ?? keeps;
}

/**
 * A bundle that is trusted by digest passes, but its change of keys has no effect.
 *
 * @throws AppError `bundle/rotation`
 */
export function checkRotation(bundle: VerifiedBundle, { isVouched }: VerifiedPayload, trust: Trust): void {
  const { payload } = bundle;
  if (isVouched || !hasRotation(payload)) return;
  if (allowsRotation(bundle, authoritiesOf(bundle, rulesOf(trust)))) return;
  const named = payload.trust?.role;
  const title = bundleName(payload);
  if (named === undefined) {
    const wanted = trust.threshold === 1 ? 'a plain key (*.pub)' : `${trust.threshold} plain keys (*.pub)`;
    const message = `${title} brings or revokes plain keys, and ${wanted} must have signed it for that: it was signed by ${bundle.signedBy.join(', ')}. Have it signed by plain keys, or name the role of its keys (--trust-role)`;
    throw bundleError('bundle/rotation', message);
  }
  const role = trust.keys.roles.find(({ name }) => name === named);
  const message = `${title} brings or revokes keys of role ${named}, and ${whyNotBy(role, named)}`;
  throw bundleError('bundle/rotation', message);
}

function whyNotBy(role: Role | undefined, named: string): string {
  if (role === undefined) return `there is no such role here: add ${named}.toml to keys.d, or have it made without`;
  if (!role.mayRotate) return `the role does not allow it: set may_rotate = true in ${named}.toml to allow it`;
  return `that needs signatures of ${role.threshold} keys of this role, in a bundle that the role may sign; signatures of other keys do not count for it`;
}

function rulesOf({ keys, threshold }: Trust): SignatureRules {
  // Revoked keys are not trusted, so they are no signers.
  return { threshold, roles: keys.roles, revocations: { keyIds: [], revocationsUnreadable: false } };
}

function withSigners(
  bundle: Omit<VerifiedBundle, 'signedBy' | 'signerKeyIds' | 'signerRoles'>,
  signers: readonly TrustedKey[],
): VerifiedBundle {
  const inRoles = signers.flatMap(({ keyId, role }) => (role === undefined ? [] : [{ keyId, role }]));
  return {
    ...bundle,
    signedBy: signers.map(({ name }) => name).sort(),
    signerKeyIds: signers.map(({ keyId }) => keyId).sort(),
    ...(inRoles.length > 0 && { signerRoles: inRoles.sort((a, b) => (a.keyId < b.keyId ? -1 : 1)) }),
  };
}

function hasPlainSigners({ signers }: VerifiedPayload, { threshold }: Trust): boolean {
  return signers.filter(({ role }) => role === undefined).length >= threshold;
}

/** Roles with enough signers, regardless of their limits. */
function rolesMet(signers: readonly TrustedKey[], { keys }: Trust): readonly Role[] {
  return keys.roles.filter(({ name, threshold }) => signers.filter(({ role }) => role === name).length >= threshold);
}

function outside(payload: Payload, roles: readonly Role[], outsideOf: (role: Role) => LimitPassed | undefined) {
  const why = roles.flatMap((role) => {
    const found = outsideOf(role);
    return found === undefined ? [] : [scopeText(role, found)];
  });
  const message = `${bundleName(payload)} is not covered by what its keys may sign: ${why.join('; ')}. Have it signed by a key that may sign this, or change the role's file`;
  return bundleError('bundle/outside-role', message);
}

function scopeText({ name, streams, repositories }: Role, found: LimitPassed): string {
  if (found.kind === 'keep') {
    return `role ${name} may not keep a release for life: make it without --keep life, or set may_keep_for_life = true in ${name}.toml`;
  }
  if (found.kind === 'stream') {
    return `role ${name} may not sign for stream ${found.stream}, only for ${streams.join(', ')}`;
  }
  const allowed = repositories.length === 0 ? 'no repository at all' : `only for ${repositories.join(', ')}`;
  return `role ${name} may not sign stream ${found.stream} for repository ${found.repository}, ${allowed}`;
}
