import { parse } from 'yaml';
import { applyToNode } from './apply.ts';
import { type Attributes, nodeOfUser, type User } from './authorizer.ts';
import { discovery } from './discovery.ts';
import { type NodeObject, newNode } from './node-object.ts';
import { admitNodeChange } from './node-restriction.ts';
import type { NodeStore } from './node-store.ts';
import { applyToStatus, patchNodeStatus } from './patch-node.ts';
import { formOf, present, presentList } from './present.ts';
import { forbid, refusal } from './status.ts';
import { type EventObject, validateEvent } from './validate.ts';

/** A request, read whole. */
export interface ServerRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly accept: string | undefined;
  readonly contentType: string;
  readonly body: string;
}

/** What the routes work on. */
export interface ServerState {
  readonly store: NodeStore;
  readonly events: EventObject[];
  readonly authorize: (user: User, attributes: Attributes) => void;
  /** ClusterRoles and ClusterRoleBindings. */
  readonly rules: { readonly has: (kind: string, name: string) => boolean; readonly apply: (yaml: string) => void };
  readonly now: () => number;
}

/** An answer, or a watch that begins. */
export type Answer =
  | { readonly kind: 'answer'; readonly code: number; readonly body: object }
  | { readonly kind: 'watch'; readonly only: string | undefined; readonly form: 'full' | 'metadata' | 'table' };

const ok = (body: object, code = 200): Answer => ({ kind: 'answer', code, body });

/** Answers one request. @throws Refusal */
export function route(state: ServerState, request: ServerRequest): Answer {
  const { path, method } = request;
  const found = discovery[path];
  if (found !== undefined && method === 'GET') return ok(found);
  const [, node, status] = /^\/api\/v1\/nodes\/([^/]+)(\/status)?$/.exec(path) ?? [];
  if (path === '/api/v1/nodes' && method === 'GET') return nodes(state, request);
  if (node !== undefined) return oneNode(state, request, decodeURIComponent(node), status !== undefined);
  const [, eventSpace] = /^\/api\/v1\/(?:namespaces\/([^/]+)\/)?events$/.exec(path) ?? [];
  if (path.endsWith('/events')) return events(state, request, eventSpace);
  const [, space, lease] =
    /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/.exec(path) ?? [];
  if (space !== undefined) return leases(state, request, space, lease);
  const [, rbac, rule] = /^\/apis\/rbac\.authorization\.k8s\.io\/v1\/(\w+)(?:\/([^/]+))?$/.exec(path) ?? [];
  if (rbac !== undefined) return rules(state, request, rbac, rule);
  if (path === '/api/v1/pods' || /^\/api\/v1\/namespaces\/[^/]+\/configmaps$/.test(path))
    return emptyList(state, request);
  throw refusal(404, 'NotFound', 'the server could not find the requested resource');
}

function nodes(state: ServerState, request: ServerRequest): Answer {
  const { query, user } = request;
  const isWatch = ['true', '1'].includes(query.get('watch') ?? '');
  const [, only] = /^metadata\.name=(.+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  const verb = isWatch ? 'watch' : 'list';
  state.authorize(user, { verb, group: '', resource: 'nodes', ...(only !== undefined && { name: only }) });
  const form = formOf(request.accept, !isWatch);
  if (form === undefined)
    throw refusal(406, 'NotAcceptable', 'only the following media types are accepted: application/json');
  if (isWatch) return { kind: 'watch', only, form };
  const all = state.store.list().filter(({ metadata }) => only === undefined || metadata.name === only);
  const limit = Number(query.get('limit') ?? 0) || all.length;
  const [version = String(state.store.version()), from = '0'] = query.get('continue')?.split('/') ?? [];
  if (Number(version) < state.store.forgottenUntil()) {
    throw refusal(410, 'Expired', 'The provided continue parameter is too old');
  }
  const rest = all.length - Number(from) - limit;
  const next = rest > 0 ? { continue: `${version}/${Number(from) + limit}`, remainingItemCount: rest } : {};
  const page = all.slice(Number(from), Number(from) + limit);
  return ok(presentList(page, { resourceVersion: version, ...next }, form));
}

function oneNode(state: ServerState, request: ServerRequest, name: string, isStatus: boolean): Answer {
  const { method, user } = request;
  const resource = isStatus ? 'nodes/status' : 'nodes';
  const verb = method === 'PATCH' ? 'patch' : method === 'DELETE' ? 'delete' : 'get';
  state.authorize(user, { verb, group: '', resource, name });
  const node = state.store.get(name) ?? madeByApply(state, request, name, isStatus);
  if (node === undefined) throw refusal(404, 'NotFound', `nodes "${name}" not found`);
  const form = formOf(request.accept, false);
  if (form === undefined) throw refusal(406, 'NotAcceptable', 'no such form');
  if (method === 'GET') return ok(present(node, form));
  if (method !== 'PATCH') throw refusal(405, 'MethodNotAllowed', 'the server does not allow this method');
  const after = patched(state, request, node, isStatus);
  admitNodeChange(user, node, after);
  if (request.query.getAll('dryRun').includes('All')) return ok(present(after, form));
  return ok(present(state.store.put(after), form));
}

/** As the API server does: an apply makes what is not there, unless it names a uid. */
function madeByApply(
  state: ServerState,
  { contentType, user, body }: ServerRequest,
  name: string,
  isStatus: boolean,
): NodeObject | undefined {
  if (contentType !== 'application/apply-patch+yaml' || isStatus) return undefined;
  state.authorize(user, { verb: 'create', group: '', resource: 'nodes', name });
  const { uid } = (parse(body) as { metadata?: { uid?: string } }).metadata ?? {};
  if (uid !== undefined) {
    throw refusal(409, 'Conflict', `uid mismatch: the object specified uid ${uid}, and no object was found`);
  }
  state.store.add(newNode(name));
  return state.store.get(name);
}

function patched(state: ServerState, request: ServerRequest, node: NodeObject, isStatus: boolean): NodeObject {
  const { query, contentType, body } = request;
  const now = new Date(state.now()).toISOString();
  if (contentType === 'application/apply-patch+yaml') {
    const isForced = query.get('force') === 'true';
    if (isStatus) return applyToStatus(node, parse(body), isForced);
    return applyToNode(node, { fieldManager: query.get('fieldManager'), isForced, document: parse(body), now });
  }
  if (query.has('force')) {
    throw refusal(
      422,
      'Invalid',
      'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    );
  }
  if (contentType !== 'application/strategic-merge-patch+json' || !isStatus) {
    throw refusal(415, 'UnsupportedMediaType', `the body of the request was in an unknown format: ${contentType}`);
  }
  return patchNodeStatus(node, JSON.parse(body));
}

function events(state: ServerState, request: ServerRequest, namespace: string | undefined): Answer {
  const { method, user, query } = request;
  const verb = method === 'POST' ? 'create' : 'list';
  state.authorize(user, { verb, group: '', resource: 'events', ...(namespace !== undefined && { namespace }) });
  if (method === 'GET') {
    const wanted = (query.get('fieldSelector') ?? '')
      .split(',')
      .map((term) => /^involvedObject\.(\w+)=(.*)$/.exec(term));
    const items = state.events.filter(({ involvedObject }) =>
      wanted.every((term) => term === null || (involvedObject[term[1] ?? ''] ?? '') === term[2]),
    );
    return ok({ kind: 'EventList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items });
  }
  if (method !== 'POST' || namespace === undefined) throw refusal(405, 'MethodNotAllowed', 'not allowed');
  if (request.contentType !== 'application/json') throw refusal(415, 'UnsupportedMediaType', request.contentType);
  const event = JSON.parse(request.body) as EventObject;
  validateEvent(event, namespace);
  if (state.events.some(({ metadata }) => metadata.name === event.metadata.name)) {
    throw refusal(409, 'AlreadyExists', `events "${event.metadata.name}" already exists`);
  }
  state.events.push({ ...event, metadata: { ...event.metadata, namespace } });
  return ok(event, 201);
}

function leases(state: ServerState, request: ServerRequest, namespace: string, named: string | undefined): Answer {
  const { method, user } = request;
  const verb = method === 'POST' ? 'create' : 'get';
  const name = named ?? (JSON.parse(request.body) as { metadata: { name: string } }).metadata.name;
  state.authorize(user, { verb, group: 'coordination.k8s.io', resource: 'leases', namespace, name });
  const node = nodeOfUser(user);
  if (node !== undefined && (namespace !== 'kube-node-lease' || name !== node)) {
    forbid(
      `leases.coordination.k8s.io "${name}"`,
      `can only access node lease with the same name as the requesting node`,
    );
  }
  if (method === 'GET') throw refusal(404, 'NotFound', `leases.coordination.k8s.io "${name}" not found`);
  return ok(JSON.parse(request.body), 201);
}

function rules(state: ServerState, request: ServerRequest, resource: string, named: string | undefined): Answer {
  const { method, user, body } = request;
  const group = 'rbac.authorization.k8s.io';
  const document = method === 'POST' ? (JSON.parse(body) as { kind: string; metadata: { name: string } }) : undefined;
  const name = named ?? document?.metadata.name ?? '';
  state.authorize(user, { verb: document === undefined ? 'get' : 'create', group, resource, name });
  const kind = resource === 'clusterroles' ? 'ClusterRole' : 'ClusterRoleBinding';
  const isThere = state.rules.has(kind, name);
  if (document === undefined) {
    if (!isThere) throw refusal(404, 'NotFound', `${resource}.${group} "${name}" not found`);
    throw refusal(405, 'MethodNotAllowed', 'the server of the tests shows no rules');
  }
  if (isThere) throw refusal(409, 'AlreadyExists', `${resource}.${group} "${name}" already exists`);
  state.rules.apply(body);
  return ok(document, 201);
}

function emptyList(state: ServerState, { user, path }: ServerRequest): Answer {
  const resource = path.endsWith('/pods') ? 'pods' : 'configmaps';
  state.authorize(user, { verb: 'list', group: '', resource });
  return ok({
    kind: resource === 'pods' ? 'PodList' : 'ConfigMapList',
    apiVersion: 'v1',
    metadata: { resourceVersion: '1' },
    items: [],
  });
}
