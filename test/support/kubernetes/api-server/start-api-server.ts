import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { managedBy } from './apply.ts';
import { createAuthorizer, type User } from './authorizer.ts';
import { addressesOf, type NodeObject, newNode } from './node-object.ts';
import { type Change, createNodeStore } from './node-store.ts';
import { present } from './present.ts';
import { type Answer, route, type ServerRequest, type ServerState } from './routes.ts';
import { isRefusal, refusal, statusOf } from './status.ts';
import type { EventObject } from './validate.ts';

/** What is answered instead of the truth. */
export interface Fault {
  /** 0: nothing, the connection is cut. */
  readonly code: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: a `Status`. */
  readonly body?: string;
}

/** A request as it was answered. */
export interface SeenRequest {
  readonly line: string;
  readonly code: number;
  readonly isZipped?: boolean;
}

/** The strict API server of the tests. */
export interface ApiServer {
  readonly url: string;
  /** All requests, each when its answer began. */
  readonly seen: readonly SeenRequest[];
  readonly events: readonly EventObject[];
  addNode(name: string, address?: string): void;
  /** Sets the address of a Node, as a cloud provider does after its kubelet has made it. */
  setAddress(name: string, address: string): void;
  removeNode(name: string): void;
  /** What `kubectl cordon` and `kubectl uncordon` do. */
  cordon(name: string, isCordoned: boolean): void;
  /** Its kubelet reports, or is silent for long. */
  setReady(name: string, isReady: boolean): void;
  node(name: string): NodeObject;
  /** Sets annotations and labels as another program does, which is their manager then. */
  setByOther(name: string, keys: { annotations?: Record<string, string>; labels?: Record<string, string> }): void;
  /** What `kubectl apply` of ClusterRoles and ClusterRoleBindings does. */
  apply(yaml: string): void;
  /** Takes all of them away. */
  clearRules(): void;
  /** Forgets old versions: watches that begin there get 410. */
  compact(): void;
  /** Sends a bookmark to all watches that want one. */
  bookmark(): void;
  /** Ends all watches, with this object as an event `ERROR` if there is one. */
  endWatches(error?: object): void;
  watches(): number;
  /** From now on only certificates of this authority are taken. */
  trust(authority: string): void;
  /** Answers all requests with a fault; undefined ends that. */
  fail(fault: Fault | ((line: string) => Fault | undefined) | undefined): void;
  /** Closes the port and all connections. */
  stop(): Promise<void>;
  /** Opens the same port again. */
  restart(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What it proves itself with, and whose clients it takes. PEM. */
export interface ApiServerOptions {
  readonly certificate: string;
  readonly key: string;
  readonly clientCa: string;
  /** Default 127.0.0.1. */
  readonly host?: string;
  readonly now?: () => number;
}

interface Watcher {
  send(type: string, object: object): void;
  end(): void;
  readonly hasBookmarks: boolean;
}

interface Running extends ServerState {
  readonly options: ApiServerOptions;
  readonly seen: SeenRequest[];
  readonly watches: Set<Watcher>;
  readonly sockets: Set<Socket>;
  clientCa: string;
  fault: ((line: string) => Fault | undefined) | undefined;
}

/**
 * Starts it on a free port. It answers as kube-apiserver 1.36 with
 * `--authorization-mode=Node,RBAC` and NodeRestriction answers: nodes, their status, events, and
 * the refusals of leases and ConfigMaps. What it does not know it answers with 404 or 500.
 */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const authorizer = createAuthorizer();
  const now = options.now ?? Date.now;
  const state: Running = {
    options,
    store: createNodeStore(),
    events: [],
    authorize: authorizer.check,
    rules: authorizer,
    now,
    seen: [],
    watches: new Set(),
    sockets: new Set(),
    clientCa: options.clientCa,
    fault: undefined,
  };
  let server = await listenOn(state, 0);
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    const closed = server.listening ? once(server, 'close') : undefined;
    server.close();
    for (const socket of state.sockets) socket.destroy();
    await closed;
  };
  return {
    url: `https://${options.host ?? '127.0.0.1'}:${port}`,
    seen: state.seen,
    events: state.events,
    addNode: (name, address) => state.store.add(newNode(name, address)),
    setAddress: (name, address) => {
      const node = existing(state, name);
      state.store.put({ ...node, status: { ...node.status, addresses: addressesOf(name, address) } });
    },
    removeNode: (name) => state.store.remove(name),
    cordon: (name, unschedulable) => {
      const node = existing(state, name);
      state.store.put({ ...node, spec: { ...node.spec, unschedulable } });
    },
    setReady: (name, isReady) => {
      const node = existing(state, name);
      const conditions = node.status.conditions.map((one) =>
        one.type === 'Ready' ? { ...one, status: isReady ? 'True' : 'Unknown' } : one,
      );
      state.store.put({ ...node, status: { ...node.status, conditions } });
    },
    node: (name) => existing(state, name),
    setByOther: (name, keys) => setByOther(state, name, keys),
    apply: authorizer.apply,
    clearRules: authorizer.clear,
    compact: () => state.store.compact(),
    bookmark: () => sendBookmarks(state),
    endWatches: (error) => endWatches(state, error),
    watches: () => state.watches.size,
    trust: (authority) => {
      state.clientCa = authority;
      server.setSecureContext({ cert: options.certificate, key: options.key, ca: authority });
    },
    fail: (fault) => {
      state.fault = typeof fault === 'object' ? () => fault : fault;
    },
    stop,
    restart: async () => {
      server = await listenOn(state, port);
    },
    [Symbol.asyncDispose]: stop,
  };
}

/** As kube-apiserver (`defaultGzipThresholdBytes`). */
const ZIPPED_BYTES = 128 * 1024;

async function listenOn(state: Running, port: number): Promise<Server> {
  const { certificate, key, host = '127.0.0.1' } = state.options;
  const tls = { cert: certificate, key, ca: state.clientCa, requestCert: true, rejectUnauthorized: false };
  const server = createServer(tls, (request, response) => {
    answer(state, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.on('connection', (socket: Socket) => {
    state.sockets.add(socket);
    socket.on('close', () => state.sockets.delete(socket));
  });
  server.listen(port, host);
  await once(server, 'listening');
  return server;
}

async function answer(state: Running, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = '', url = '' } = request;
  const line = `${method} ${url}`;
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const { pathname, searchParams } = new URL(url, 'https://server');
  const user = userOf(request.socket as TLSSocket);
  const see = (code: number, isZipped = false) => state.seen.push({ line, code, isZipped });
  const fault = state.fault?.(line);
  if (fault !== undefined) {
    see(fault.code);
    if (fault.code === 0) return void request.socket.destroy();
    const body = fault.body ?? JSON.stringify(statusOf(fault.code, 'Fault', 'a fault of the test'));
    response.writeHead(fault.code, { 'content-type': 'application/json', ...fault.headers }).end(body);
    return;
  }
  try {
    if (user === undefined) throw refusal(401, 'Unauthorized', 'Unauthorized');
    const read: ServerRequest = {
      method,
      path: pathname,
      query: searchParams,
      user,
      accept: request.headers.accept,
      contentType: request.headers['content-type'] ?? '',
      body: Buffer.concat(chunks).toString('utf8'),
    };
    const result = route(state, read);
    if (result.kind === 'watch') {
      see(200);
      return watch(state, read, result, response);
    }
    const body = JSON.stringify(result.body);
    const isZipped = body.length > ZIPPED_BYTES && request.headers['accept-encoding'] === 'gzip';
    see(result.code, isZipped);
    if (!isZipped) return sendJson(response, result.code, result.body);
    response.writeHead(result.code, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
    response.end(gzipSync(body));
  } catch (error) {
    const code = isRefusal(error) ? error.code : 500;
    see(code);
    sendJson(response, code, isRefusal(error) ? error.body : statusOf(500, 'InternalError', String(error)));
  }
}

function userOf(socket: TLSSocket): User | undefined {
  if (!socket.authorized) return undefined;
  const { CN, O } = socket.getPeerCertificate().subject;
  return { name: String(CN), groups: [O].flat().filter((group) => group !== undefined) };
}

function sendJson(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function watch(
  state: Running,
  { query }: ServerRequest,
  { only, form }: Answer & { readonly kind: 'watch' },
  response: ServerResponse,
): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.flushHeaders();
  const send = (type: string, object: object) => response.write(`${JSON.stringify({ type, object })}\n`);
  const from = Number(query.get('resourceVersion') ?? 0);
  if (from < state.store.forgottenUntil()) {
    send('ERROR', statusOf(410, 'Expired', `too old resource version: ${from} (${state.store.forgottenUntil()})`));
    response.end();
    return;
  }
  const sendChange = ({ type, node }: Change) => {
    if (only === undefined || node.metadata.name === only) send(type, present(node, form));
  };
  for (const change of state.store.since(from)) sendChange(change);
  const unfollow = state.store.follow(sendChange);
  const leave = () => {
    unfollow();
    clearTimeout(timer);
    state.watches.delete(watcher);
  };
  // An ended response takes nothing any more, though its connection closes later.
  const end = () => {
    leave();
    response.end();
  };
  const watcher = { send, end, hasBookmarks: query.get('allowWatchBookmarks') === 'true' };
  const timer = setTimeout(end, Number(query.get('timeoutSeconds') ?? 3_600) * 1_000);
  state.watches.add(watcher);
  response.on('close', leave);
}

function sendBookmarks({ watches, store }: Running): void {
  const metadata = { resourceVersion: String(store.version()), creationTimestamp: null };
  const object = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata };
  for (const { send, hasBookmarks } of watches) {
    if (hasBookmarks) send('BOOKMARK', object);
  }
}

function endWatches({ watches }: Running, error: object | undefined): void {
  for (const { send, end } of [...watches]) {
    if (error !== undefined) send('ERROR', error);
    end();
  }
}

function existing({ store }: Running, name: string): NodeObject {
  const node = store.get(name);
  if (node === undefined) throw new Error(`no node ${name}`);
  return node;
}

function setByOther(
  state: Running,
  name: string,
  { annotations = {}, labels = {} }: { annotations?: Record<string, string>; labels?: Record<string, string> },
): void {
  const node = existing(state, name);
  const { metadata } = node;
  const entry = managedBy('other', { annotations, labels }, new Date(state.now()).toISOString(), undefined, 'Update');
  const next = {
    annotations: { ...metadata.annotations, ...annotations },
    labels: { ...metadata.labels, ...labels },
    managedFields: [...metadata.managedFields.filter(({ manager }) => manager !== 'other'), entry],
  };
  state.store.put({ ...node, metadata: { ...metadata, ...next } });
}
