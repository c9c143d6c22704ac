import { isDeepStrictEqual } from 'node:util';
import { nodeOfUser, type User } from './authorizer.ts';
import type { NodeObject } from './node-object.ts';
import { forbid } from './status.ts';

/** Labels of `kubernetes.io` and `k8s.io` that a kubelet may set (kubelet's `WellKnownLabels`). */
const KUBELET_LABELS = new Set([
  'kubernetes.io/hostname',
  'kubernetes.io/arch',
  'kubernetes.io/os',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'node.kubernetes.io/instance-type',
]);
const KUBELET_DOMAINS = /^(?:.+\.)?(?:kubelet|node)\.kubernetes\.io$/;
const RESERVED_DOMAINS = /^(?:.+\.)?(?:kubernetes|k8s)\.io$/;

/** The admission plugin NodeRestriction, for a change of a Node. @throws Refusal 403 */
export function admitNodeChange(user: User, before: NodeObject, after: NodeObject): void {
  const node = nodeOfUser(user);
  if (node === undefined) return;
  const what = `nodes "${before.metadata.name}"`;
  if (node !== before.metadata.name) {
    forbid(what, `node "${node}" is not allowed to modify node "${before.metadata.name}"`);
  }
  if (!isDeepStrictEqual(before.spec.taints, after.spec.taints)) {
    forbid(what, `node "${node}" is not allowed to modify taints`);
  }
  const labels = changedKeys(before.metadata.labels, after.metadata.labels).filter((key) => !isAllowedLabel(key));
  if (labels.length > 0) {
    forbid(what, `is not allowed to modify labels: ${labels.join(', ')}`);
  }
}

function isAllowedLabel(key: string): boolean {
  const [domain = '', name] = key.split('/');
  if (name === undefined || !RESERVED_DOMAINS.test(domain)) return true;
  if (/^(?:.+\.)?node-restriction\.kubernetes\.io$/.test(domain)) return false;
  return KUBELET_LABELS.has(key) || KUBELET_DOMAINS.test(domain);
}

function changedKeys(before: Readonly<Record<string, string>>, after: Readonly<Record<string, string>>): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => before[key] !== after[key]);
}
