import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { Fleet } from '../../../src/app/fleet/fleet.ts';
import { loadSettings } from '../../../src/config/load-settings.ts';
import type { FleetView, NodeStatus } from '../../../src/domain/fleet/node-status.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import type { Cluster, ClusterNode } from '../../../src/fleet/trouble.ts';
import { OffersClient } from '../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../src/fleet/wire/connection.ts';
import { fleetPaths, wirePaths } from '../../../src/fleet/wire/documents.ts';
import { createOffersHandler, serveSocket } from '../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../../src/platform/subscription.ts';
import { eventually } from '../eventually.ts';
import { createRecordingLog, type RecordingLog } from '../recording-log.ts';
import { silentNotifier } from '../silent-notifier.ts';
import { createMemoryOffers, type MemoryOffers } from './memory-offers.ts';
import { identityOf } from './tls-pair.ts';

/** How a node is set up. */
export interface TestNodeOptions {
  readonly name: string;
  /** Everything of it lies in a folder below. */
  readonly base: string;
  /** The root of the kubelet's files; absent: `fleet.auth = "none"`. */
  readonly kubelet?: string;
  readonly fleet?: Partial<Settings['fleet']>;
  /** Other nodes as the Kubernetes API shows them. */
  readonly nodes?: readonly ClusterNode[];
  /** What the API is told to be; default none. */
  readonly apiTrouble?: string;
  readonly status?: NodeStatus;
  /** Instead of `status`: one that changes. */
  readonly own?: { status(): NodeStatus | undefined; onChange(listener: () => void): Unsubscribe };
  /** Labels of Nodes that its releases need. */
  readonly readLabels?: () => readonly string[] | undefined;
  /** Instead of `nodes` and `apiTrouble`. */
  readonly cluster?: Cluster;
  /** Its folder, with what an earlier start left there; default: a new one. */
  readonly folder?: string;
}

/** The fleet process in this process, with a daemon of which only the offers are there. */
export interface TestNode {
  readonly name: string;
  readonly fleet: Fleet;
  readonly offers: MemoryOffers;
  readonly log: RecordingLog;
  readonly statuses: readonly string[];
  readonly stateDir: string;
  readonly socket: string;
  /** Where others reach it. */
  port(): number;
  /** Other nodes, from now on. */
  show(...nodes: readonly ClusterNode[]): void;
  /** What the daemon would be told. */
  view(): Promise<FleetView>;
  /** Resolves with the first view for which `isIt` holds. */
  until(isIt: (view: FleetView) => boolean, timeoutMs?: number): Promise<FleetView>;
  /** A client of `peers.sock`, for one peer. */
  peer(name: string): OffersClient;
  stop(): Promise<void>;
}

/** Starts a node on a free port of loopback. */
export async function startTestNode(options: TestNodeOptions): Promise<TestNode> {
  mkdirSync(options.base, { recursive: true });
  const folder = options.folder ?? mkdtempSync(join(options.base, 'n-'));
  const settings = await settingsOf(folder, options);
  mkdirSync(settings.paths.run_dir, { recursive: true });
  const paths = fleetPaths(settings.paths);
  const log = createRecordingLog();
  const offers = createMemoryOffers();
  const daemon = await serveSocket(paths.offersSocket, createOffersHandler(offers, systemClock, log));
  const memory = createMemoryCluster(options);
  const { kubelet } = options;
  const identity = kubelet === undefined ? undefined : await identityOf(kubelet, log);
  const statuses: string[] = [];
  const fleet = new Fleet({
    settings,
    cluster: options.cluster ?? memory,
    ownStatus: options.own?.status ?? (() => options.status),
    onOwnStatus: options.own?.onChange ?? (() => () => undefined),
    onSticks: () => [],
    pauses: () => undefined,
    identity,
    readLabels: () => options.readLabels?.(),
    notifier: { ...silentNotifier, status: (line) => statuses.push(line) },
    clock: systemClock,
    log,
  });
  const stop = new AbortController();
  const running = fleet.run(stop.signal);
  const connection = new WireConnection({ who: 'the fleet process', connect: unixSocket(paths.peersSocket) });
  const client = new OffersClient(connection);
  const view = async () => {
    const answer = await client.fleet({}, stop.signal);
    if (answer === undefined) throw new Error('no view');
    return answer.document;
  };
  const node: TestNode = {
    name: options.name,
    fleet,
    offers,
    log,
    statuses,
    stateDir: paths.stateDir,
    socket: paths.peersSocket,
    port: () => {
      const serves = fleet.serves();
      return serves === undefined || serves === 'unknown' ? 0 : serves.port;
    },
    show: memory.show,
    view,
    until: (isIt, timeoutMs = 20_000) =>
      eventually(async () => {
        const now = await view();
        if (!isIt(now)) throw new Error(`not there yet: ${JSON.stringify(now)}`);
        return now;
      }, timeoutMs),
    peer: (name) => new OffersClient(connection, wirePaths.peer(name)),
    stop: async () => {
      stop.abort();
      await running;
      connection.close();
      await daemon.close();
    },
  };
  await eventually(() => {
    if (settings.fleet.serve && node.port() === 0) throw new Error('it does not listen');
  });
  return node;
}

async function settingsOf(folder: string, { fleet, kubelet }: TestNodeOptions): Promise<Settings> {
  const defaults = await loadSettings({ fragments: [] }, new AbortController().signal);
  return {
    ...defaults,
    fleet: {
      ...defaults.fleet,
      enabled: true,
      auth: kubelet === undefined ? 'none' : 'kubelet',
      ...fleet,
    },
    paths: { state_dir: join(folder, 's'), run_dir: join(folder, 'r') },
  };
}

function createMemoryCluster({ name, nodes: first = [], apiTrouble }: TestNodeOptions) {
  const listeners: Listeners = new Set();
  let nodes = first;
  const cluster: Cluster & { show(...nodes: readonly ClusterNode[]): void } = {
    self: () => name,
    address: () => '127.0.0.1',
    readLabels: () => [],
    isRemoved: () => false,
    nodes: () => [...nodes, { name, serves: [] }],
    trouble: () => apiTrouble,
    isOld: () => false,
    need: () => undefined,
    meet: () => undefined,
    onChange: (listener) => listen(listeners, listener),
    run: async () => undefined,
    show: (...next) => {
      nodes = next;
      notifyAll(listeners);
    },
  };
  return cluster;
}
