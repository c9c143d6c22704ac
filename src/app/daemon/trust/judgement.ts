import { keyProblemLine } from '../../../bundle/keys/keys-folder.ts';
import type { Trust, TrustedKeys } from '../../../bundle/keys/trust.ts';
import { withdrawalOf } from '../../../domain/adoption/trust-withdrawal.ts';
import { type BundleId, hexOf } from '../../../domain/model/digest.ts';
import { type Approvals, isApproved } from '../../../domain/trust/approval.ts';
import type { Revocations } from '../../../domain/trust/key-rotation.ts';
import { revocationsInForce, withSeen } from '../../../domain/trust/revocation-record.ts';
import type { TrustInForce } from '../../../domain/trust/trust-in-force.ts';
import { digestOf } from '../../../platform/digest.ts';
import { keysNow, type NodeKeys } from './node-keys.ts';

/** What a bundle on a medium is judged by now. */
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
 * Another text whenever a judgement may be another. Adopted bundles are not part of it: what was
 * adopted was judged good, so that its adoption changes no judgement.
 */
export function trustRevision(node: NodeKeys): string {
  const { require, threshold } = node.settings;
  const content = JSON.stringify([threshold, require, keysNow(node).revision, approvedBundles(node)]);
  return hexOf(digestOf(content));
}

/** The keys that never count. */
export function revocationsOf(node: NodeKeys): Revocations {
  const keys = keysNow(node);
  const cause = causeOf(keys);
  return {
    keyIds: [...keys.revokedIds].sort(),
    revocationsUnreadable: keys.revocationsUnreadable,
    ...(cause !== undefined && { cause }),
  };
}

/** All that bundles are judged by, to be shown. */
export function trustInForce(node: NodeKeys): TrustInForce {
  const { require, threshold } = node.settings;
  const keys = keysNow(node);
  const cause = causeOf(keys);
  return {
    require,
    threshold,
    keys: shownKeys(node, keys),
    revoked: shownRevocations(node, keys),
    problems: keys.problems.map(keyProblemLine),
    revocationsUnreadable: keys.revocationsUnreadable,
    ...(cause !== undefined && { cause }),
  };
}

function shownKeys({ own, store }: NodeKeys, { keys }: TrustedKeys): TrustInForce['keys'] {
  const ownKeys = new Set(own.keys.map(({ keyId }) => keyId));
  const { rotation } = store.load();
  return keys.map(({ name, keyId, otherIds }) => {
    const ids = [keyId, ...otherIds];
    const brought = ownKeys.has(keyId) ? undefined : rotation.keys.find((key) => ids.includes(key.keyId));
    return { name, keyId, ...(brought !== undefined && { broughtBy: brought.bundleId }) };
  });
}

function shownRevocations(
  { store, memory, clock }: NodeKeys,
  { revoked, byFile, formsOf }: TrustedKeys,
): TrustInForce['revoked'] {
  const stored = revocationsInForce(withSeen(memory.record(), store.load().rotation.revoked, clock.now()));
  return revoked.map((keyId) => {
    const ids = formsOf.get(keyId) ?? [keyId];
    const file = byFile.find((one) => ids.includes(one.keyId))?.file;
    if (file !== undefined) return { keyId, file };
    const by = stored.find((one) => ids.includes(one.keyId) && one.bundleId !== undefined)?.bundleId;
    return { keyId, ...(by !== undefined && { revokedBy: by }) };
  });
}

function approvalsOf({ settings, store }: NodeKeys): Approvals {
  const { require, threshold, approved } = settings;
  return { policy: { require, threshold, approved }, verdicts: store.load().verdicts };
}

/** Bundles whose approval alone is enough, sorted. */
function approvedBundles(node: NodeKeys): readonly BundleId[] {
  const { require, approved } = node.settings;
  if (require !== 'approval') return [];
  const known = approvalsOf(node);
  const named = [...approved, ...known.verdicts.map(({ bundleId }) => bundleId)];
  return [...new Set(named)].filter((bundleId) => isApproved(bundleId, known)).sort();
}

/**
 * A bundle once adopted stays a source of blobs, unless its key is revoked (docs/architecture.md).
 */
function adoptedBundles(node: NodeKeys): readonly BundleId[] {
  const [known, revoked] = [approvalsOf(node), revocationsOf(node)];
  const inForce = node.store.load().bundles.filter((bundle) => withdrawalOf(bundle, revoked, known) === undefined);
  return inForce.map(({ bundleId }) => bundleId);
}

/** What keeps revocations from being read; undefined when nothing does. */
function causeOf({ problems }: TrustedKeys): string | undefined {
  const bad = problems.find(({ hidesRevocations }) => hidesRevocations);
  return bad === undefined ? undefined : keyProblemLine(bad);
}
