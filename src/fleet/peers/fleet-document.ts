import type { IncomingMessage, ServerResponse } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { FleetNode, NodeStatus, RebootLock, Search, ShownRollOut } from '../../domain/fleet/node-status.ts';
import type { Pause } from '../../domain/fleet/pause.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { CLOSED, closeSignal, respondJson } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import type { Cluster, ClusterNode } from '../trouble.ts';
import { type FleetDocument, parsePeerPath, parseWirePath, wirePaths } from '../wire/documents.ts';
import { answerSafely, relay, sendWatched, type WatchedDocument } from '../wire/server.ts';
import type { Peers, ReceivedStatus } from './peers.ts';
import type { Silence } from './silence.ts';

interface FleetParts {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble' | 'readLabels' | 'isOld' | 'isRemoved'>;
  readonly peers: Pick<Peers, 'list' | 'statuses' | 'nodeNames'>;
  readonly written: WrittenStatuses;
  readonly silence: Pick<Silence, 'seenAt' | 'isAbsent' | 'isSilent'>;
  readonly ownStatus: () => NodeStatus | undefined;
  readonly search: () => Search;
  /** Undefined without `update.fleet_lock`. */
  readonly lock?: RebootLock | undefined;
  readonly pauses?: readonly Pause[] | undefined;
  /** `fleet.exclude`. */
  readonly exclude?: readonly string[];
  readonly rollOuts?: readonly ShownRollOut[];
}

/**
 * Reports the fleet to the daemon. A node reports its status on the wire and to the API server; the
 * later one counts, since either way may be blocked, and a node that needs nothing queries nobody.
 */
export function fleetDocument(parts: FleetParts): FleetDocument {
  const { cluster, peers, written, silence, ownStatus, search, lock, pauses, exclude = [], rollOuts = [] } = parts;
  const self = cluster.self();
  const received = peers.statuses();
  written.refresh();
  const shown = new Map(cluster.nodes().map((node) => [node.name, node]));
  const names = new Set([self, ...shown.keys(), ...peers.nodeNames()]);
  const isIn = (name: string) => name === self || !exclude.includes(name);
  const nodes = [...names]
    .filter(isIn)
    .sort()
    .map((name): FleetNode => {
      const status = name === self ? ownStatus() : later(received.get(name), written.of(name))?.status;
      const seenAt = silence.seenAt(name);
      const isAbsent = name !== self && silence.isAbsent(name);
      const isSilent = (name !== self && silence.isSilent(name)) || undefined;
      return defined({ name, status, seenAt, isAbsent, isSilent, facts: shown.get(name)?.facts });
    });
  return defined({
    version: 1,
    self,
    nodes,
    peers: peers.list(),
    apiTrouble: cluster.trouble(),
    isOld: cluster.isOld() || undefined,
    isRemoved: cluster.isRemoved() || exclude.includes(self) || undefined,
    search: search(),
    readLabels: cluster.readLabels(),
    lock,
    pauses,
    removed: exclude.length === 0 ? undefined : exclude,
    rollOuts: rollOuts.length === 0 ? undefined : rollOuts,
  });
}

function later(one: ReceivedStatus | undefined, other: ReceivedStatus | undefined): ReceivedStatus | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.atMs > other.atMs ? one : other;
}

interface Seen {
  readonly node: ClusterNode;
  readonly received: ReceivedStatus | undefined;
}

/** What other nodes wrote into their Nodes, and when this node read it. */
export class WrittenStatuses {
  private seen: ReadonlyMap<string, Seen> = new Map();

  /**
   * @param onHeard called for each other node whose annotations changed since they were first read
   */
  constructor(
    private readonly cluster: Cluster,
    private readonly clock: Clock,
    private readonly onHeard: (node: string) => void,
  ) {}

  /** Undefined for a node that wrote nothing yet. */
  of(node: string): ReceivedStatus | undefined {
    return this.seen.get(node)?.received;
  }

  /** Reads the cluster, which may have changed. */
  refresh(): void {
    this.seen = new Map(this.cluster.nodes().map((node) => [node.name, this.next(node, this.seen.get(node.name))]));
  }

  private next(node: ClusterNode, before: Seen | undefined): Seen {
    if (before !== undefined && isDeepStrictEqual(before.node, node)) return before;
    // The first text may be old.
    if (before !== undefined && node.name !== this.cluster.self()) this.onHeard(node.name);
    const isSame = isDeepStrictEqual(before?.node.status, node.status);
    return { node, received: isSame ? before?.received : { status: node.status, atMs: this.clock.monotonic() } };
  }
}

interface DaemonAnswers {
  readonly fleet: WatchedDocument;
  /** A command wants to know all other nodes now. Resolves when it does, or after a time. */
  readonly refresh: (signal: AbortSignal) => Promise<void>;
  readonly peers: Pick<Peers, 'find' | 'failed'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Answers on `peers.sock`. Never rejects. */
export async function answerDaemon(
  request: IncomingMessage,
  response: ServerResponse,
  { fleet, refresh, peers, clock, log }: DaemonAnswers,
): Promise<void> {
  const [target = ''] = (request.url ?? '').split('?', 1);
  await answerSafely(request, response, log, async () => {
    if (target === wirePaths.fleet) {
      if (request.headers['cache-control'] === 'no-cache') await refresh(closeSignal(response));
      return sendWatched(request, response, { document: fleet, clock });
    }
    const wanted = parsePeerPath(target);
    const peer = wanted && peers.find(wanted.peer);
    if (wanted === undefined || peer === undefined || parseWirePath(wanted.path).kind === 'unknown') {
      return respondJson(response, 404, { error: 'there is no such peer, or it is not asked for that' });
    }
    try {
      await relay(request, response, { connection: peer.connection, path: wanted.path });
    } catch (error) {
      // The runtime ended its request, which is no fault of the peer. All requests fail at once.
      if (error !== CLOSED && !response.destroyed && peer.trouble === undefined) peers.failed(peer, error);
      throw error;
    }
  });
}
