import { mkdirSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { dirname } from 'node:path';
import type { FleetNode, OfferedBundle } from '../../../src/domain/fleet/node-status.ts';
import { OffersClient } from '../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../src/fleet/wire/connection.ts';
import { type Busy, fleetPaths, parsePeerPath, parseWirePath, respondBusy } from '../../../src/fleet/wire/documents.ts';
import { answerSafely, relay, sendWatched, serveSocket } from '../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { type Listeners, listen, notifyAll } from '../../../src/platform/subscription.ts';

/** A request for a blob that one node made of another. */
export interface AskedBlob {
  readonly from: string;
  readonly of: string;
  readonly digest: string;
  /** How many bytes of the answer were passed on so far. */
  sentBytes: number;
  readonly response: ServerResponse;
}

/** What a test does to the blobs of one node; what returns true has answered. */
export type BlobTrick = (asked: AskedBlob, request: IncomingMessage) => boolean | Promise<boolean>;

/** The fleet processes of some nodes in this process: they pass on what is asked, without TLS. */
export interface FleetDouble {
  /** Connects a node whose daemon has this `run_dir`. */
  join(name: string, paths: { readonly run_dir: string; readonly state_dir: string }): Promise<void>;
  /** The node is gone for all others: its connections are cut, and it is no peer any more. */
  leave(name: string): void;
  /** Before a blob of this node is passed on. */
  onBlob(name: string, trick: BlobTrick | undefined): void;
  /** What nodes tell of themselves. */
  tell(nodes: readonly FleetNode[]): void;
  readonly asked: readonly AskedBlob[];
  dispose(): Promise<void>;
}

interface Node {
  readonly connection: WireConnection;
  readonly stop: AbortController;
  bundles: readonly OfferedBundle[];
  isGone: boolean;
  trick?: BlobTrick | undefined;
}

/** Answers a blob request with 503. */
export function busyTrick(busy: () => Busy | undefined): BlobTrick {
  return ({ response }) => {
    const now = busy();
    if (now !== undefined) respondBusy(response, now);
    return now !== undefined;
  };
}

/** Makes it without a node. */
export function createFleetDouble(): FleetDouble {
  const nodes = new Map<string, Node>();
  const listeners: Listeners = new Set();
  const asked: AskedBlob[] = [];
  const closers: (() => Promise<void>)[] = [];
  let told: readonly FleetNode[] = [];
  const viewOf = (self: string) => ({
    version: 1 as const,
    self,
    nodes: told,
    peers: [...nodes]
      .filter(([name, { isGone }]) => name !== self && !isGone)
      .map(([name, { bundles }]) => ({ name, address: `${name}:9777`, bundles })),
  });
  const pass = async (from: string, request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const target = request.url ?? '';
    if (target === '/v1/fleet') {
      const document = { current: async () => viewOf(from), onChange: (on: () => void) => listen(listeners, on) };
      return sendWatched(request, response, { document, clock: systemClock });
    }
    const to = parsePeerPath(target);
    const node = to && nodes.get(to.peer);
    if (to === undefined || node === undefined || node.isGone) {
      response.writeHead(404, { 'content-length': 0 }).end();
      return;
    }
    const route = parseWirePath(to.path);
    if (route.kind !== 'blob') return relay(request, response, { connection: node.connection, path: to.path });
    const one: AskedBlob = { from, of: to.peer, digest: route.digest, sentBytes: 0, response };
    asked.push(one);
    if ((await node.trick?.(one, request)) === true) return;
    const onBytes = (count: number) => {
      one.sentBytes += count;
    };
    await relay(request, response, { connection: node.connection, path: to.path }, onBytes);
  };
  return {
    asked,
    join: async (name, paths) => {
      const { offersSocket, peersSocket } = fleetPaths(paths);
      const connection = new WireConnection({ who: name, connect: unixSocket(offersSocket) });
      const node: Node = { connection, stop: new AbortController(), bundles: [], isGone: false };
      nodes.set(name, node);
      const following = follow(node, () => notifyAll(listeners));
      mkdirSync(dirname(peersSocket), { recursive: true });
      const server = await serveSocket(peersSocket, (request, response) =>
        answerSafely(request, response, silentLog, () => pass(name, request, response)),
      );
      closers.push(async () => {
        node.stop.abort();
        connection.close();
        await following;
        await server.close();
      });
    },
    leave: (name) => {
      const node = nodes.get(name);
      if (node === undefined) return;
      node.isGone = true;
      for (const { of, response } of asked) if (of === name) response.destroy();
      notifyAll(listeners);
    },
    onBlob: (name, trick) => {
      const node = nodes.get(name);
      if (node !== undefined) node.trick = trick;
    },
    tell: (next) => {
      told = next;
      notifyAll(listeners);
    },
    dispose: async () => {
      for (const close of closers) await close();
    },
  };
}

async function follow(node: Node, changed: () => void): Promise<void> {
  const client = new OffersClient(node.connection);
  const { signal } = node.stop;
  let etag: string | undefined;
  while (!signal.aborted) {
    try {
      const next = await client.offers({ etag, waitMs: 30_000 }, signal);
      if (next === undefined) continue;
      node.bundles = next.document.bundles;
      etag = next.etag;
      changed();
    } catch {
      if (node.bundles.length > 0) changed();
      node.bundles = [];
      etag = undefined;
      await systemClock.sleep(100, signal).catch(() => undefined);
    }
  }
}
