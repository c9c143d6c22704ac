import { isDeepStrictEqual } from 'node:util';
import { parseStatusAnnotation } from '../../domain/fleet/node-status.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';
import { type Listeners, listen, notifyAll } from '../../platform/subscription.ts';
import { SERVES_ANNOTATION, STATUS_ANNOTATION } from '../publish/node-status.ts';
import { parseServes } from '../publish/own-report.ts';
import { type Cluster, type ClusterNode, Trouble, USUAL_MS, WarnOnce } from '../trouble.ts';
import { backoffMs, type Credentials, isKubernetesError, type KubernetesApi, watchErrorOf } from './api.ts';
import {
  type NodeMetadata,
  type OwnFields,
  readMetadataList,
  readNode,
  readWatchEvent,
  type WatchEvent,
} from './objects.ts';

/** Where packages put the rights for nodes to see each other. */
const FLEET_YAML = '/usr/share/doc/stickpin/fleet.yaml';

export interface KubernetesCluster extends Cluster {
  /** Stickpin's metadata of the own Node; undefined until it was read. */
  ownFields(): OwnFields | undefined;
}

interface KubernetesClusterOptions {
  readonly api: KubernetesApi;
  /** Names the own Node where the credentials don't. */
  readonly hostname: string;
  readonly clock: Clock;
  /** 0 to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
}

/** Up to twice as long by chance, as in client-go. */
const WATCH_MS = 300_000;

/** Of the own Node only; then all nodes are tried again. */
const OWN_WATCH_MS = 30_000;

/** A watch that ends with an error after this time has worked. */
const STEADY_MS = 30_000;

/** So many in a row are no trouble. */
const USUAL_GONE = 3;

type Scope = 'all' | 'own';

interface State extends KubernetesClusterOptions {
  self: string;
  address: string | undefined;
  own: OwnFields | undefined;
  nodes: Map<string, ClusterNode>;
  hasAnswered: boolean;
  readonly listeners: Listeners;
  /** The API does not answer properly. */
  readonly away: Trouble;
  /** The API ends each watch at once. */
  readonly unwatched: Trouble;
  /** Only the own Node is visible. */
  readonly limited: Trouble;
  /** Addresses that are not used. */
  readonly refusals: WarnOnce;
  /** Some API servers end each watch that requests bookmarks. */
  hasBookmarks: boolean;
}

interface Position {
  readonly scope: Scope;
  resourceVersion: string;
}

/** Metadata only. */
export function createKubernetesCluster(options: KubernetesClusterOptions): KubernetesCluster {
  const state: State = {
    ...options,
    self: options.hostname,
    address: undefined,
    own: undefined,
    nodes: new Map(),
    listeners: new Set(),
    hasAnswered: false,
    away: new Trouble(options.log, { clock: options.clock, forMs: USUAL_MS }),
    unwatched: new Trouble(options.log, { clock: options.clock, forMs: USUAL_MS }),
    limited: new Trouble(options.log),
    refusals: new WarnOnce(options.log, options.clock),
    hasBookmarks: true,
  };
  return {
    self: () => state.self,
    address: () => state.address,
    ownFields: () => state.own,
    nodes: () => [...state.nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    trouble: () => {
      const [first] = [state.away, state.unwatched, state.limited].flatMap((one) => one.current() ?? []);
      return first ?? (state.hasAnswered ? undefined : 'It was not asked yet.');
    },
    onChange: (listener) => listen(state.listeners, listener),
    run: (signal) => run(state, signal),
  };
}

async function run(state: State, signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    let listedAt: number | undefined;
    try {
      const position = await begin(state, signal);
      listedAt = state.clock.monotonic();
      await follow(state, position, signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      const wasSteady = listedAt !== undefined && state.clock.monotonic() - listedAt >= STEADY_MS;
      failures = wasSteady ? 1 : failures + 1;
      // Forgotten changes are no trouble at first: all nodes are listed again.
      const isUsual = isKubernetesError(error, 'kubernetes/gone') && failures <= USUAL_GONE;
      if (listedAt === undefined && !isUsual) logAway(state, error);
      if (listedAt !== undefined && !isUsual && failures > 1) logUnwatched(state, error);
      const waitMs = backoffMs(failures, error, state.random());
      await state.clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }
}

async function begin(state: State, signal: AbortSignal): Promise<Position> {
  const credentials = await state.api.credentials(signal);
  await readOwnNode(state, credentials, signal);
  const { scope, nodes, resourceVersion } = await listVisible(state, signal);
  const known = new Map(nodes.map((node) => [node.name, nodeOf(state, node)]));
  const own = nodes.find(({ name }) => name === state.self);
  const fields = own && fieldsOf(own);
  const isSame = isDeepStrictEqual(known, state.nodes) && isDeepStrictEqual(fields, state.own);
  state.nodes = known;
  state.own = fields;
  const isBack = state.away.end('The Kubernetes API answers again') || !state.hasAnswered;
  state.hasAnswered = true;
  if (!isSame || isBack) notifyAll(state.listeners);
  return { scope, resourceVersion };
}

/** Addresses are not in the metadata. */
async function readOwnNode(state: State, credentials: Credentials, signal: AbortSignal): Promise<void> {
  const self = credentials.nodeName ?? state.hostname;
  const isRenamed = self !== state.self;
  state.self = self;
  if (isRenamed) notifyAll(state.listeners);
  const answer = await state.api.send({ method: 'GET', path: nodePath(self) }, signal);
  const { addresses } = readNode(answer).status;
  const address = addresses?.find(({ type }) => type === 'InternalIP')?.address;
  const isSame = address === state.address;
  state.address = address;
  if (!isSame) notifyAll(state.listeners);
}

interface Listed {
  readonly scope: Scope;
  readonly nodes: readonly NodeMetadata[];
  readonly resourceVersion: string;
}

async function listVisible(state: State, signal: AbortSignal): Promise<Listed> {
  try {
    const all = await listNodes(state.api, undefined, signal);
    if (state.limited.end('All nodes of the cluster are shown to this node now')) notifyAll(state.listeners);
    return { scope: 'all', ...all };
  } catch (error) {
    if (!isKubernetesError(error, 'kubernetes/forbidden')) throw error;
    const own = await listNodes(state.api, state.self, signal);
    const text = `The cluster does not show other nodes to this one (${reasonOf(error)}). 'kubectl apply -f ${FLEET_YAML}' lets nodes see each other, once for the whole cluster.`;
    if (state.limited.begin(text, error)) notifyAll(state.listeners);
    return { scope: 'own', ...own };
  }
}

/** Ends when everything has to be read again. */
async function follow(state: State, position: Position, signal: AbortSignal): Promise<void> {
  for (;;) {
    const leastMs = position.scope === 'own' ? OWN_WATCH_MS : WATCH_MS;
    const forMs = Math.round(leastMs * (1 + state.random()));
    const beganAt = state.clock.monotonic();
    const only = position.scope === 'own' ? state.self : undefined;
    const events = watchNodes(state.api, { ...position, only, forMs, hasBookmarks: state.hasBookmarks }, signal);
    for await (const event of events) {
      const isOwn = take(state, position, event);
      // A cloud provider gives a Node its addresses later.
      if (isOwn && state.address === undefined) {
        await readOwnNode(state, await state.api.credentials(signal), signal);
      }
    }
    signal.throwIfAborted();
    endUnwatched(state);
    if (position.scope === 'own') return;
    const lastedMs = state.clock.monotonic() - beganAt;
    if (lastedMs < WATCH_MS / 2) await state.clock.sleep(backoffMs(1, undefined, state.random()), signal);
    await readOwnNode(state, await state.api.credentials(signal), signal);
  }
}

/** @returns whether the own Node has changed */
function take(state: State, position: Position, event: WatchEvent): boolean {
  if (event.type === 'ERROR') {
    const error = watchErrorOf('/api/v1/nodes', event.object);
    if (error.code === 'kubernetes/no-bookmarks') state.hasBookmarks = false;
    throw error;
  }
  endUnwatched(state);
  const { resourceVersion } = event.object.metadata;
  if (resourceVersion !== '') position.resourceVersion = resourceVersion;
  if (event.type === 'BOOKMARK') return false;
  const { metadata } = event.object;
  const isOwn = metadata.name === state.self;
  const before = { node: state.nodes.get(metadata.name), own: state.own };
  const now = event.type === 'DELETED' ? undefined : nodeOf(state, metadata);
  if (now === undefined) state.nodes.delete(metadata.name);
  else state.nodes.set(metadata.name, now);
  if (isOwn) state.own = now && fieldsOf(metadata);
  if (!isDeepStrictEqual(before, { node: now, own: state.own })) notifyAll(state.listeners);
  return isOwn && event.type !== 'DELETED';
}

function nodeOf({ refusals }: State, metadata: NodeMetadata): ClusterNode {
  return clusterNodeOf(metadata, (address) => {
    const text = `Node ${metadata.name} offers bundles at ${address}, which is an address of each machine itself: it is not asked there. Set fleet.listen on it to its address in the cluster, or "auto"`;
    refusals.warn(metadata.name, address, { node: metadata.name }, text);
  });
}

function fieldsOf({ annotations, labels }: NodeMetadata): OwnFields {
  return { annotations, labels };
}

function logAway(state: State, error: unknown): void {
  const known = state.nodes.size === 0 ? '' : ' The nodes that were known stay known.';
  const text = isKubernetesError(error, 'kubernetes/not-found')
    ? `Kubernetes has no Node ${state.self}, which the kubelet of this node registers.${known} It is tried again.`
    : `The Kubernetes API can't be read: ${sentence(reasonOf(error))}${known} It is tried again.`;
  if (state.away.begin(text, error)) notifyAll(state.listeners);
}

function logUnwatched(state: State, error: unknown): void {
  const text = `The Kubernetes API does not tell changes of nodes: ${sentence(reasonOf(error))} All nodes are listed again instead, less and less often.`;
  if (state.unwatched.begin(text, error)) notifyAll(state.listeners);
}

function endUnwatched(state: State): void {
  if (state.unwatched.end('The Kubernetes API tells changes of nodes again')) notifyAll(state.listeners);
}

interface NodeAnnotations {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * Unreadable annotations count as absent.
 *
 * @param onRefused called with an address that is not used; see {@link parseServes}
 */
export function clusterNodeOf(
  { name, annotations = {} }: NodeAnnotations,
  onRefused: (address: string) => void = () => undefined,
): ClusterNode {
  const status = parseStatusAnnotation(annotations[STATUS_ANNOTATION] ?? '');
  const serves = parseServes(annotations[SERVES_ANNOTATION] ?? '');
  if (serves?.refused !== undefined) onRefused(serves.refused);
  return {
    name,
    ...(serves?.endpoint !== undefined && { endpoint: serves.endpoint }),
    serves: serves?.bundles ?? [],
    ...(status !== undefined && { status }),
  };
}

const NODES = '/api/v1/nodes';
const AS_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const AS_METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';
const PAGE = 500;
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

/**
 * Page by page.
 *
 * @param only the name of a single Node
 * @throws KubernetesError
 */
export async function listNodes(api: KubernetesApi, only: string | undefined, signal: AbortSignal): Promise<NodeList> {
  const nodes: NodeMetadata[] = [];
  let next = '';
  for (;;) {
    const query = { ...selectorOf(only), limit: String(PAGE), ...(next !== '' && { continue: next }) };
    const answer = await api.send({ method: 'GET', path: NODES, query, accept: AS_LIST }, signal);
    const { metadata, items } = readMetadataList(answer);
    nodes.push(...items.map((item) => item.metadata));
    if (!metadata.continue) return { nodes, resourceVersion: metadata.resourceVersion };
    next = metadata.continue;
  }
}

interface WatchOptions {
  readonly only: string | undefined;
  readonly resourceVersion: string;
  readonly hasBookmarks: boolean;
  /** For the server, in milliseconds. */
  readonly forMs: number;
}

/** Since a version. @throws KubernetesError */
async function* watchNodes(
  api: KubernetesApi,
  { only, resourceVersion, hasBookmarks, forMs }: WatchOptions,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void, undefined> {
  const query = {
    ...selectorOf(only),
    watch: 'true',
    resourceVersion,
    timeoutSeconds: String(Math.ceil(forMs / 1_000)),
    ...(hasBookmarks && { allowWatchBookmarks: 'true' }),
  };
  const request = { method: 'GET', path: NODES, query, accept: AS_METADATA } as const;
  for await (const line of api.watch(request, forMs + GRACE_MS, signal)) yield readWatchEvent(line);
}

function selectorOf(only: string | undefined): Readonly<Record<string, string>> {
  return only === undefined ? {} : { fieldSelector: `metadata.name=${only}` };
}
