import type { KubernetesApi } from './api.ts';
import { type NodeMetadata, readMetadataList, readWatchEvent, type WatchEvent } from './objects.ts';

const NODES = '/api/v1/nodes';
const AS_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const AS_METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';
const PAGE = 500;
/** How long the client waits after the server should have ended a watch. */
const GRACE_MS = 30_000;

/** The path of a Node. */
export function nodePath(name: string): string {
  return `${NODES}/${encodeURIComponent(name)}`;
}

/** The metadata of Nodes, and the version at which a watch goes on. */
export interface NodeList {
  readonly nodes: readonly NodeMetadata[];
  readonly resourceVersion: string;
}

/**
 * The metadata of all Nodes, or of one, page by page.
 *
 * @param only the name of the only one
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

/** What {@link watchNodes} asks for. */
export interface WatchOptions {
  readonly only: string | undefined;
  readonly resourceVersion: string;
  readonly hasBookmarks: boolean;
  /** How long the server lets it last, in milliseconds. */
  readonly forMs: number;
}

/** The changes of the metadata of Nodes since a version. @throws KubernetesError */
export async function* watchNodes(
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
