import type { ManagedFields, NodeObject } from './node-object.ts';
import { invalid, refusal } from './status.ts';

/** A server-side apply of a Node. */
export interface Apply {
  readonly fieldManager: string | null;
  readonly isForced: boolean;
  readonly document: unknown;
  readonly now: string;
}

type Kind = 'annotations' | 'labels';
type Texts = Readonly<Record<string, string>>;
interface Applied {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown; readonly uid?: unknown; readonly managedFields?: unknown } & Partial<
    Record<Kind, Texts | null>
  >;
  readonly spec?: { readonly taints?: unknown };
}

const MEMBERS = {
  document: ['apiVersion', 'kind', 'metadata', 'spec'],
  metadata: ['name', 'uid', 'annotations', 'labels'],
};

/**
 * The Node after a server-side apply of annotations and labels (Kubernetes, "Server-Side Apply"):
 * what the manager applied before and leaves out now goes away, unless somebody else has it too.
 *
 * @throws Refusal
 */
export function applyToNode(node: NodeObject, { fieldManager, isForced, document, now }: Apply): NodeObject {
  const what = `Node "${node.metadata.name}"`;
  if (fieldManager === null || fieldManager === '') {
    throw refusal(
      422,
      'Invalid',
      'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    );
  }
  const applied = checked(what, node, document);
  const own = node.metadata.managedFields.find(
    (entry) => entry.manager === fieldManager && entry.operation === 'Apply',
  );
  const others = node.metadata.managedFields.filter((entry) => entry !== own);
  const annotations = merged('annotations', node, applied, own, others, isForced);
  const labels = merged('labels', node, applied, own, others, isForced);
  const keys = { annotations: applied.metadata?.annotations ?? {}, labels: applied.metadata?.labels ?? {} };
  const entry = managedBy(fieldManager, keys, now, own);
  const left = others
    .map((other) => without(other, keys, node))
    .filter((other) => Object.keys(other.fieldsV1).length > 0);
  const managedFields = [...left, ...(Object.keys(entry.fieldsV1).length > 0 ? [entry] : [])];
  const spec = applied.spec?.taints === undefined ? node.spec : { ...node.spec, taints: applied.spec.taints };
  return { ...node, spec, metadata: { ...node.metadata, annotations, labels, managedFields } };
}

function checked(what: string, node: NodeObject, document: unknown): Applied {
  if (typeof document !== 'object' || document === null) throw refusal(400, 'BadRequest', 'error decoding YAML');
  const applied = document as Applied;
  if (applied.apiVersion !== 'v1' || applied.kind !== 'Node') {
    throw refusal(400, 'BadRequest', 'invalid object type: apiVersion and kind must be those of a Node');
  }
  if (applied.metadata?.name !== node.metadata.name) {
    throw refusal(400, 'BadRequest', 'the name of the object does not match the name on the URL');
  }
  const { uid = node.metadata.uid } = applied.metadata;
  if (uid !== node.metadata.uid) {
    const found = `UID in precondition: ${uid}, UID in object meta: ${node.metadata.uid}`;
    throw refusal(409, 'Conflict', `Operation cannot be fulfilled: ${found}`);
  }
  if (applied.metadata.managedFields != null) invalid(what, 'metadata.managedFields', 'must be nil');
  const unknown = [
    ...Object.keys(applied).filter((member) => !MEMBERS.document.includes(member)),
    ...Object.keys(applied.metadata).filter((member) => !MEMBERS.metadata.includes(member)),
  ];
  if (unknown.length > 0) throw new Error(`the server of the tests applies no ${unknown.join(', ')}`);
  return applied;
}

function merged(
  kind: Kind,
  node: NodeObject,
  applied: Applied,
  own: ManagedFields | undefined,
  others: readonly ManagedFields[],
  isForced: boolean,
): Texts {
  const wanted = applied.metadata?.[kind] ?? {};
  const has = (entry: ManagedFields, key: string) => keysOf(entry, kind).includes(key);
  const conflict = Object.entries(wanted).find(
    ([key, value]) => node.metadata[kind][key] !== value && others.some((other) => has(other, key)),
  );
  if (conflict !== undefined && !isForced) {
    const field = `.metadata.${kind}.${conflict[0]}`;
    throw refusal(409, 'Conflict', `Apply failed with 1 conflict: conflict with another manager: ${field}`);
  }
  const gone = (own === undefined ? [] : keysOf(own, kind)).filter(
    (key) => !(key in wanted) && !others.some((other) => has(other, key)),
  );
  const kept = Object.entries(node.metadata[kind]).filter(([key]) => !gone.includes(key));
  return { ...Object.fromEntries(kept), ...wanted };
}

/** The keys of annotations or labels that an entry has. */
function keysOf({ fieldsV1 }: ManagedFields, kind: Kind): readonly string[] {
  const fields = fieldsV1 as { readonly 'f:metadata'?: Readonly<Record<string, object>> };
  return Object.keys(fields['f:metadata']?.[`f:${kind}`] ?? {})
    .filter((key) => key !== '.')
    .map((key) => key.slice(2));
}

/** The entry of a manager with these keys. @param before keeps its time when nothing changed */
export function managedBy(
  manager: string,
  keys: Readonly<Record<Kind, Texts>>,
  now: string,
  before?: ManagedFields,
  operation: ManagedFields['operation'] = 'Apply',
): ManagedFields {
  const fields = (texts: Texts) =>
    Object.fromEntries(
      Object.keys(texts)
        .sort()
        .map((key) => [`f:${key}`, {}]),
    );
  const parts = (['annotations', 'labels'] as const).filter((kind) => Object.keys(keys[kind]).length > 0);
  const metadata = Object.fromEntries(parts.map((kind) => [`f:${kind}`, fields(keys[kind])]));
  const fieldsV1 = parts.length === 0 ? {} : { 'f:metadata': metadata };
  const isSame = before !== undefined && JSON.stringify(before.fieldsV1) === JSON.stringify(fieldsV1);
  return { manager, operation, apiVersion: 'v1', time: isSame ? before.time : now, fieldsType: 'FieldsV1', fieldsV1 };
}

/** A forced apply takes the fields whose values it changed. */
function without(other: ManagedFields, wanted: Readonly<Record<Kind, Texts>>, node: NodeObject): ManagedFields {
  const rest = (kind: Kind) =>
    Object.fromEntries(
      keysOf(other, kind)
        .filter((key) => wanted[kind][key] === undefined || wanted[kind][key] === node.metadata[kind][key])
        .map((key) => [key, '']),
    );
  const keys = { annotations: rest('annotations'), labels: rest('labels') };
  return { ...other, fieldsV1: managedBy(other.manager, keys, other.time).fieldsV1 };
}
