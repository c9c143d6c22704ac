import * as v from 'valibot';
import { LABEL_PREFIX, type NodeFacts } from '../../domain/fleet/node-status.ts';
import { CONTROL_PLANE_LABEL } from '../../domain/model/roll-out-order.ts';
import { defined } from '../../platform/defined.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { type KubernetesApi, kubernetesError } from './api.ts';

const texts = v.nullish(v.record(v.string(), v.string()), {});
const optionalText = v.nullish(v.string(), '');

/** `ObjectMeta` (meta/v1). */
const metadata = v.object({
  name: v.string(),
  uid: optionalText,
  resourceVersion: optionalText,
  annotations: texts,
  labels: texts,
  managedFields: v.nullish(
    v.array(v.object({ manager: optionalText, operation: optionalText, fieldsV1: v.optional(v.unknown()) })),
    [],
  ),
});

/** Kept of other Nodes: a cluster may have 5,000, with far more metadata of other programs. */
const keptMetadata = v.object({
  name: v.string(),
  resourceVersion: optionalText,
  annotations: v.pipe(texts, v.transform(prefixed)),
  labels: texts,
});

export interface NodeMetadata extends OwnFields {
  readonly name: string;
  readonly resourceVersion: string;
  readonly facts: NodeFacts;
}

const condition = v.object({
  type: v.string(),
  status: v.string(),
  reason: optionalText,
  message: optionalText,
  lastTransitionTime: optionalText,
});

const node = v.object({
  metadata,
  status: v.optional(
    v.object({
      addresses: v.nullish(v.array(v.object({ type: v.string(), address: v.string() })), []),
      conditions: v.nullish(v.array(condition), []),
    }),
    {},
  ),
});

export type OwnNode = v.InferOutput<typeof node>;

/** Without `status` it is a `PartialObjectMetadata`. */
const listedNode = v.object({
  metadata: keptMetadata,
  spec: v.nullish(v.object({ unschedulable: v.nullish(v.boolean(), false) }), {}),
  status: v.optional(
    v.object({ conditions: v.nullish(v.array(v.object({ type: v.string(), status: v.string() })), []) }),
  ),
});
const metadataList = v.object({ metadata: v.object({ resourceVersion: v.string(), continue: optionalText }) });

const watchEvent = v.variant('type', [
  v.object({ type: v.picklist(['ADDED', 'MODIFIED', 'DELETED']), object: listedNode }),
  v.object({ type: v.literal('BOOKMARK'), object: v.object({ metadata: v.object({ resourceVersion: v.string() }) }) }),
  v.object({ type: v.literal('ERROR'), object: v.unknown() }),
]);

export type ListedNode = v.InferOutput<typeof listedNode>;

export type WatchEvent = v.InferOutput<typeof watchEvent>;

/** @throws KubernetesError `kubernetes/answer` */
export const readNode = (answer: unknown): OwnNode => read(node, 'Node', answer);
/** @throws KubernetesError `kubernetes/answer` */
const readMetadataList = (answer: unknown): v.InferOutput<typeof metadataList> =>
  read(metadataList, 'PartialObjectMetadataList', answer);
/** @throws KubernetesError `kubernetes/answer` */
const readListed = (item: unknown, keys: readonly string[] = []): NodeMetadata =>
  nodeMetadata(read(listedNode, 'PartialObjectMetadata', item), keys);
/** @throws KubernetesError `kubernetes/answer` */
export const readWatchEvent = (answer: unknown): WatchEvent => read(watchEvent, 'WatchEvent', answer);

/** @param keys of the labels that orders of releases read */
export function nodeMetadata({ metadata, spec, status }: ListedNode, keys: readonly string[]): NodeMetadata {
  const { labels: all, ...others } = metadata;
  const wanted = [...keys, CONTROL_PLANE_LABEL].filter((key) => Object.hasOwn(all, key));
  const labels = Object.fromEntries(wanted.map((key) => [key, all[key]]));
  const conditions = status?.conditions;
  const isReady = conditions?.some((one) => one.type === 'Ready' && one.status === 'True');
  const facts = defined({ labels, isReady, isCordoned: conditions && spec?.unschedulable === true });
  return { ...others, labels: prefixed(all), facts };
}

export interface OwnFields {
  readonly annotations: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Keys of `f:metadata` that a field manager has applied, as `annotations` or `labels` (`FieldsV1`
 * of meta/v1). Other keys of the prefix are not ours.
 */
export function appliedKeys(
  { managedFields }: OwnNode['metadata'],
  manager: string,
  kind: keyof OwnFields,
): ReadonlySet<string> {
  const applied = managedFields.filter((entry) => entry.manager === manager && entry.operation === 'Apply');
  const keys = applied.flatMap(({ fieldsV1 }) => Object.keys(memberOf(memberOf(fieldsV1, 'f:metadata'), `f:${kind}`)));
  return new Set(keys.filter((key) => key.startsWith('f:')).map((key) => key.slice('f:'.length)));
}

function memberOf(value: unknown, name: string): object {
  const member: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof member === 'object' && member !== null ? member : {};
}

/** Sorted. */
function prefixed(all: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const labels = Object.entries(all).filter(([key]) => key.startsWith(LABEL_PREFIX));
  return Object.fromEntries(labels.sort(([a], [b]) => a.localeCompare(b)));
}

function read<Schema extends v.GenericSchema>(schema: Schema, kind: string, answer: unknown): v.InferOutput<Schema> {
  const result = v.safeParse(schema, answer);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const where = v.getDotPath(issue) ?? 'the answer';
  const message = `the Kubernetes API answered with something that is no ${kind}: ${where}: ${oneLine(schemaFault(issue))}`;
  throw kubernetesError('kubernetes/answer', message);
}

const NODES = '/api/v1/nodes';
const AS_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const AS_METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';
/** How long the client waits after the server should have ended a watch. */
const GRACE_MS = 30_000;

export function nodePath(name: string): string {
  return `${NODES}/${encodeURIComponent(name)}`;
}

/** The version is where a watch continues. */
interface NodeList {
  readonly nodes: readonly NodeMetadata[];
  readonly resourceVersion: string;
}

interface ListOptions {
  /** The name of a single Node. */
  readonly only?: string | undefined;
  /** Keys of labels: the Nodes are read whole. */
  readonly keys?: readonly string[] | undefined;
}

/**
 * From the cache of the API server, which sends all at once whatever limit is set.
 *
 * @throws KubernetesError
 */
export async function listNodes(api: KubernetesApi, options: ListOptions, signal: AbortSignal): Promise<NodeList> {
  const { only, keys } = options;
  const nodes: NodeMetadata[] = [];
  const query = { ...selectorOf(only), resourceVersion: '0' };
  const onItem = (item: unknown) => void nodes.push(readListed(item, keys));
  const accept = keys === undefined ? { accept: AS_LIST } : {};
  const list = await api.list({ method: 'GET', path: NODES, query, ...accept }, onItem, signal);
  return { nodes, resourceVersion: readMetadataList(list).metadata.resourceVersion };
}

/** Reads those of another node. @throws KubernetesError */
export async function readMetadata(api: KubernetesApi, name: string, signal: AbortSignal): Promise<NodeMetadata> {
  return readListed(await api.send({ method: 'GET', path: nodePath(name), accept: AS_METADATA }, signal));
}

interface WatchOptions extends ListOptions {
  readonly resourceVersion: string;
  readonly hasBookmarks: boolean;
  /** How long the server sends changes, in milliseconds. */
  readonly forMs: number;
}

/** Since a version. @throws KubernetesError */
export async function* watchNodes(
  api: KubernetesApi,
  { only, keys, resourceVersion, hasBookmarks, forMs }: WatchOptions,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void, undefined> {
  const query = {
    ...selectorOf(only),
    watch: 'true',
    resourceVersion,
    timeoutSeconds: String(Math.ceil(forMs / 1_000)),
    ...(hasBookmarks && { allowWatchBookmarks: 'true' }),
  };
  const accept = keys === undefined ? { accept: AS_METADATA } : {};
  const request = { method: 'GET', path: NODES, query, ...accept } as const;
  for await (const line of api.watch(request, forMs + GRACE_MS, signal)) yield readWatchEvent(line);
}

function selectorOf(only: string | undefined): Readonly<Record<string, string>> {
  return only === undefined ? {} : { fieldSelector: `metadata.name=${only}` };
}
