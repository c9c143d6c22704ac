import { keyProblemLine } from '../../../bundle/keys/keys-folder.ts';
import type { Trust, TrustedKey, TrustedKeys, TrustedRole } from '../../../bundle/keys/trusted-keys.ts';
import { withdrawalOf } from '../../../domain/adoption/adoption.ts';
import { type BundleId, hexOf } from '../../../domain/model/digest.ts';
import { type Approvals, isApproved, type Revocations } from '../../../domain/trust/approval.ts';
import {
  revocationsInForce,
  revokerOf,
  type StoredRevocation,
  withSeen,
} from '../../../domain/trust/revocation-record.ts';
import type { Role } from '../../../domain/trust/role.ts';
import type { ShownRole, TrustInForce } from '../../../domain/trust/trust-in-force.ts';
import { digestOf } from '../../../platform/digest.ts';
import { keysNow, type NodeKeys, noKeyText } from './node-keys.ts';

export function trustOf(node: NodeKeys): Trust {
  const { require, threshold } = node.settings;
  return {
    keys: keysNow(node),
    threshold,
    vouched: new Set([...approvedBundles(node), ...adoptedBundles(node)]),
    isApprovalEnough: require === 'approval',
  };
}

/**
 * A text that changes when the result of a verification may change. Adopted bundles are not part of
 * it: they were verified before, so their adoption changes no result.
 */
export function trustRevision(node: NodeKeys): string {
  const { require, threshold } = node.settings;
  const content = JSON.stringify([threshold, require, keysNow(node).revision, approvedBundles(node)]);
  return hexOf(digestOf(content));
}

/** What keys may sign that don't count for everything. */
export function rolesOf(node: NodeKeys): readonly Role[] {
  return keysNow(node).roles.map(({ keys, revokedIds: _, ...role }) => ({
    ...role,
    keyIds: keys.flatMap(({ keyId, otherIds }) => [keyId, ...otherIds]),
  }));
}

export function revocationsOf(node: NodeKeys): Revocations {
  const keys = keysNow(node);
  const cause = causeOf(keys);
  const inRoles = new Map(keys.roles.map(({ name, revokedIds }) => [name, revokedIds]));
  return {
    keyIds: [...keys.plainRevokedIds].sort(),
    ...(inRoles.size > 0 && { inRoles }),
    revocationsUnreadable: keys.revocationsUnreadable,
    ...(cause !== undefined && { cause }),
  };
}

function alarmOf({ settings }: NodeKeys, keys: TrustedKeys): Pick<TrustInForce, 'alarm'> {
  const exposed = keys.problems.find(({ isPrivateKey }) => isPrivateKey);
  if (exposed !== undefined) return { alarm: { code: 'trust/private-key', message: keyProblemLine(exposed) } };
  const counts = keys.keys.length > 0 || keys.roles.some((role) => role.keys.length > 0);
  if (counts || keys.revocationsUnreadable || settings.require === 'approval') return {};
  return { alarm: { code: 'trust/no-key', message: noKeyText(keys, settings.keys_dir) } };
}

export function trustInForce(node: NodeKeys): TrustInForce {
  const { require, threshold } = node.settings;
  const keys = keysNow(node);
  const cause = causeOf(keys);
  return {
    require,
    threshold,
    keys: shownKeys(node, keys.keys, undefined),
    ...(keys.roles.length > 0 && { roles: keys.roles.map((role) => shownRole(node, role)) }),
    revoked: shownRevocations(node, keys),
    problems: keys.problems.map(keyProblemLine),
    revocationsUnreadable: keys.revocationsUnreadable,
    ...(cause !== undefined && { cause }),
    ...alarmOf(node, keys),
  };
}

function shownRole(node: NodeKeys, { keys, revokedIds: _, ...role }: TrustedRole): ShownRole {
  return { ...role, keys: shownKeys(node, keys, role.name) };
}

/** `role`: that of the keys; undefined for plain keys. */
function shownKeys(
  { fileKeys, store }: NodeKeys,
  keys: readonly TrustedKey[],
  role: string | undefined,
): TrustInForce['keys'] {
  const listed = role === undefined ? fileKeys.keys : (fileKeys.roles.find(({ name }) => name === role)?.keys ?? []);
  const ownKeys = new Set(listed.map(({ keyId }) => keyId));
  const { rotation } = store.load();
  return keys.map(({ name, keyId, otherIds }) => {
    const ids = [keyId, ...otherIds];
    const brought = ownKeys.has(keyId)
      ? undefined
      : rotation.keys.find((key) => ids.includes(key.keyId) && key.role === role);
    return { name, keyId, ...(brought !== undefined && { broughtBy: brought.bundleId }) };
  });
}

function shownRevocations(
  { store, memory, clock }: NodeKeys,
  { revoked, byFile, formsOf }: TrustedKeys,
): TrustInForce['revoked'] {
  const stored = revocationsInForce(withSeen(memory.record(), store.load().rotation.revoked, clock.now()));
  // Roles of earlier versions may have revoked thousands of ids.
  const files = new Map(byFile.toReversed().map((one) => [one.keyId, one.file]));
  const known = new Map<string, StoredRevocation[]>();
  for (const one of stored) known.set(one.keyId, [...(known.get(one.keyId) ?? []), one]);
  return revoked.map((keyId) => {
    const ids = formsOf.get(keyId) ?? [keyId];
    const file = ids.map((id) => files.get(id)).find((one) => one !== undefined);
    if (file !== undefined) return { keyId, file };
    return { keyId, ...revokerOf(ids.flatMap((id) => known.get(id) ?? [])) };
  });
}

function approvalsOf({ settings, store }: NodeKeys): Approvals {
  const { require, threshold, approved } = settings;
  const { verdicts, rejectedNames } = store.load();
  return { policy: { require, threshold, approved }, verdicts, ...(rejectedNames !== undefined && { rejectedNames }) };
}

/** Bundles whose approval alone is enough, sorted. */
function approvedBundles(node: NodeKeys): readonly BundleId[] {
  const { require, approved } = node.settings;
  if (require !== 'approval') return [];
  const known = approvalsOf(node);
  const named = [...approved, ...known.verdicts.map(({ bundleId }) => bundleId)];
  return [...new Set(named)].filter((bundleId) => isApproved({ bundleId }, known)).sort();
}

/**
 * Adopted bundles, which stay sources of blobs unless their key is revoked (docs/architecture.md).
 */
function adoptedBundles(node: NodeKeys): readonly BundleId[] {
  const known = approvalsOf(node);
  const signers = { revocations: revocationsOf(node), roles: rolesOf(node) };
  const inForce = node.store.load().bundles.filter((bundle) => withdrawalOf(bundle, signers, known) === undefined);
  return inForce.map(({ bundleId }) => bundleId);
}

function causeOf({ problems }: TrustedKeys): string | undefined {
  const bad = problems.find(({ hidesRevocations }) => hidesRevocations);
  return bad === undefined ? undefined : keyProblemLine(bad);
}
