import type { NodeCondition, NodeObject } from './node-object.ts';
import { invalid, refusal } from './status.ts';

/** A list that strategic merge patches merge by the member `type` (`patchMergeKey`). */
interface StatusPatch {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly status?: { readonly conditions?: readonly ConditionPatch[] };
}

type ConditionPatch = Partial<NodeCondition> & { readonly $patch?: string };

const CONDITION_MEMBERS = ['type', 'status', 'reason', 'message', 'lastHeartbeatTime', 'lastTransitionTime', '$patch'];

/**
 * The Node after a strategic merge patch of `nodes/status`, of its conditions only.
 *
 * @throws Refusal
 */
export function patchNodeStatus(node: NodeObject, document: unknown): NodeObject {
  const what = `Node "${node.metadata.name}"`;
  if (typeof document !== 'object' || document === null) throw refusal(400, 'BadRequest', 'no JSON object');
  const { status, metadata, ...others } = document as StatusPatch;
  if (Object.keys(others).some((member) => member !== 'kind' && member !== 'apiVersion')) {
    throw new Error(`the server of the tests patches no ${Object.keys(others).join(', ')}`);
  }
  const asked = metadata?.resourceVersion;
  if (asked !== undefined && asked !== node.metadata.resourceVersion) {
    throw refusal(409, 'Conflict', `Operation cannot be fulfilled on ${what}: the object has been modified`);
  }
  let conditions = [...node.status.conditions];
  for (const patch of status?.conditions ?? []) conditions = withCondition(what, conditions, patch);
  return { ...node, status: { ...node.status, conditions } };
}

/**
 * The Node after a server-side apply of conditions, each of which another manager has made. One
 * that is to be changed is a conflict, unless that is forced.
 *
 * @throws Refusal
 */
export function applyToStatus(node: NodeObject, document: StatusPatch, isForced: boolean): NodeObject {
  for (const wanted of document.status?.conditions ?? []) {
    const there = node.status.conditions.find(({ type }) => type === wanted.type);
    const isOther = there !== undefined && Object.entries(wanted).some(([member, value]) => there[member] !== value);
    if (isOther && !isForced) {
      const path = `.status.conditions[type="${wanted.type}"]`;
      throw refusal(409, 'Conflict', `Apply failed with 1 conflict: conflict with "stickpin" using v1: ${path}`);
    }
  }
  return patchNodeStatus(node, document);
}

function withCondition(what: string, conditions: readonly NodeCondition[], patch: ConditionPatch): NodeCondition[] {
  const { $patch, type, ...members } = patch;
  if (type === undefined) throw refusal(500, 'InternalError', 'map does not contain mergeKey: type');
  const unknown = Object.keys(patch).find((member) => !CONDITION_MEMBERS.includes(member));
  if (unknown !== undefined) throw refusal(400, 'BadRequest', `strict decoding error: unknown field "${unknown}"`);
  const at = conditions.findIndex((condition) => condition.type === type);
  if ($patch === 'delete') return conditions.filter((condition) => condition.type !== type);
  for (const time of ['lastHeartbeatTime', 'lastTransitionTime']) {
    const value = members[time];
    // metav1.Time is read as RFC 3339 and written in seconds.
    if (value !== undefined && Number.isNaN(Date.parse(String(value))))
      throw refusal(400, 'BadRequest', `parsing ${time}`);
    if (value !== undefined)
      Object.assign(members, { [time]: `${new Date(String(value)).toISOString().slice(0, 19)}Z` });
  }
  const next = { ...(conditions[at] ?? {}), ...members, type } as NodeCondition;
  if (next.status === undefined) invalid(what, 'status.conditions', 'Required value: status');
  // A strategic merge puts what is new before what was there.
  return at < 0 ? [next, ...conditions] : conditions.map((condition, index) => (index === at ? next : condition));
}
