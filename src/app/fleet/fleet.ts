import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import { searchOf } from '../../domain/fleet/turn.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { IdentityKeeper } from '../../fleet/identity/identity.ts';
import { answerDaemon, fleetDocument, WrittenStatuses } from '../../fleet/peers/fleet-document.ts';
import { isNeedy } from '../../fleet/peers/peer.ts';
import { Peers } from '../../fleet/peers/peers.ts';
import { countsSilence, type IsKubeletReady, Kubelets, Silence } from '../../fleet/peers/silence.ts';
import { isComplete, PeerStore } from '../../fleet/peers/stored-peers.ts';
import { nodeStatusOf } from '../../fleet/publish/node-status.ts';
import { announcedEndpoint, type OwnReport, type OwnServes, parseOwnReport } from '../../fleet/publish/own-report.ts';
import { NodePort, serveNodes } from '../../fleet/serve/node-port.ts';
import { type AnswerOptions, answerNode, OwnOffers } from '../../fleet/serve/own-offers.ts';
import { Pace, ServedNodes } from '../../fleet/serve/served-nodes.ts';
import { type Cluster, fleetStatusLine, WarnOnce } from '../../fleet/trouble.ts';
import { OffersClient } from '../../fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../fleet/wire/connection.ts';
import { fleetPaths, wireLimits } from '../../fleet/wire/documents.ts';
import { serveSocket } from '../../fleet/wire/server.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';
import type { ServiceNotifier } from '../../ports/node.ts';

interface FleetOptions {
  readonly settings: Settings;
  readonly cluster: Cluster;
  /** What the daemon of this node last reported about its releases. */
  readonly ownStatus: () => NodeStatus | undefined;
  readonly onOwnStatus: (listener: () => void) => Unsubscribe;
  readonly notifier: ServiceNotifier;
  readonly clock: Clock;
  readonly log: Log;
  /** Who this node is; undefined with `fleet.auth = "none"`. */
  readonly identity: IdentityKeeper | undefined;
  /** Whether the kubelet of another node lives, as the Kubernetes API knows. */
  readonly isKubeletReady: IsKubeletReady;
}

export interface Fleet {
  /**
   * What this node gives to others, and where; undefined while it gives nothing. `unknown` after a
   * start, until the daemon has reported it and the port was opened.
   */
  serves(): OwnServes | undefined | 'unknown';
  /** Whether the daemon of this node does not answer now. */
  isDaemonAway(): boolean;
  /** Calls `listener` when one of these may have changed. */
  onServes(listener: () => void): Unsubscribe;
  /** Runs until `signal` aborts. @throws AppError `offers/listen` */
  run(signal: AbortSignal): Promise<void>;
}

/** How often STATUS and silence are brought up to date. */
const TICK_MS = 2_000;

interface Parts {
  readonly options: FleetOptions;
  readonly peers: Peers;
  readonly own: OwnOffers;
  readonly port: NodePort;
  readonly silence: Silence;
  readonly written: WrittenStatuses;
  readonly kubelets: Kubelets;
  readonly nodes: ServedNodes;
  readonly daemon: WireConnection;
}

/** Builds the fleet process. Nothing runs yet. */
export function createFleet(options: FleetOptions): Fleet {
  const parts = partsOf(options);
  return {
    serves: () => servesOf(parts),
    isDaemonAway: () => parts.own.isDaemonAway(),
    onServes: (listener) => {
      const ends = [parts.own.onChange(listener), parts.port.onChange(listener)];
      return () => {
        for (const end of ends) end();
      };
    },
    run: (signal) => run(parts, signal),
  };
}

function partsOf(options: FleetOptions): Parts {
  const { settings, cluster, ownStatus, identity, clock, log } = options;
  const { fleet } = settings;
  const paths = fleetPaths(settings.paths);
  const warnings = new WarnOnce(log, clock);
  const daemon = new WireConnection({
    who: 'the daemon',
    connect: unixSocket(paths.offersSocket),
    // All that nodes with a turn may request, and room for those that only list the offers.
    maxConnections: wireLimits.ofNode * (fleet.max_clients + 2),
  });
  const own = new OwnOffers({
    client: new OffersClient(daemon),
    self: () => cluster.self(),
    status: ownStatus,
    clock,
    log,
  });
  const silence = new Silence(fleet.absent, clock);
  const onHeard = (node: string) => silence.heard(node);
  const written = new WrittenStatuses(cluster, clock, onHeard);
  const kubelets = new Kubelets({ cluster, silence, isReady: options.isKubeletReady, absentMs: fleet.absent, clock });
  const ways = { identity: identity && (() => identity.current()), clock, onHeard };
  const peers = new Peers({
    ...ways,
    settings: fleet,
    cluster,
    store: new PeerStore(join(paths.stateDir, 'peers.json'), log),
    warnings,
    ownStatus,
  });
  const nodes = new ServedNodes(fleet, clock);
  const answers: AnswerOptions = { own, daemon, nodes, pace: new Pace(fleet.rate, clock), clock, log };
  const port = new NodePort({
    setting: fleet.listen,
    cluster,
    stateDir: paths.stateDir,
    clock,
    log,
    serve: (endpoint) =>
      serveNodes({
        ...ways,
        endpoint,
        warnings,
        answer: (node, request, response) => {
          silence.heard(node);
          return answerNode(node, request, response, answers);
        },
      }),
  });
  return { options, peers, own, port, silence, written, kubelets, nodes, daemon };
}

async function run(parts: Parts, signal: AbortSignal): Promise<void> {
  const { options, peers, own, port, written, daemon } = parts;
  const { settings, cluster, identity, notifier, clock, log } = options;
  const { absent } = settings.fleet;
  const beganMs = clock.monotonic();
  const search = () => searchOf(clock.monotonic() - beganMs, absent);
  const fleet = {
    current: async () => fleetDocument({ ...parts, cluster, ownStatus: options.ownStatus, search }),
    onChange: (listener: () => void) => {
      const ends = [peers.onChange(listener), cluster.onChange(listener), options.onOwnStatus(listener)];
      return () => {
        for (const end of ends) end();
      };
    },
  };
  // Without them the daemon would take this node for one that is alone.
  await peers.load(signal);
  const socket = await serveSocket(fleetPaths(settings.paths).peersSocket, (request, response) =>
    answerDaemon(request, response, { fleet, peers, clock, log }),
  );
  const ends = [
    cluster.onChange(() => written.refresh()),
    options.onOwnStatus(() => {
      own.statusChanged();
      peers.statusChanged();
    }),
  ];
  notifier.ready();
  log.info({ messageId: messageIds.fleetStarted }, `The fleet process started on ${cluster.self()}`);
  const work = [cluster, own, peers, parts.kubelets].map((part) => part.run(signal));
  work.push(tick(parts, signal));
  if (identity !== undefined) work.push(identity.run(signal));
  if (settings.fleet.serve) work.push(port.run(signal));
  try {
    await Promise.all(work);
  } finally {
    for (const end of ends) end();
    await socket.close();
    daemon.close();
  }
}

/** STATUS, and how long nodes have been silent. */
async function tick(parts: Parts, signal: AbortSignal): Promise<void> {
  const { options, peers, own, port, nodes } = parts;
  const { cluster, notifier, clock } = options;
  while (!signal.aborted) {
    countSilence(parts);
    notifier.status(
      fleetStatusLine({
        served: nodes.served(),
        waiting: nodes.waiting(),
        endpoint: port.endpoint(),
        offered: own.bundles().length,
        peers: peers.list(),
        apiTrouble: cluster.trouble(),
      }),
    );
    await clock.sleep(TICK_MS, signal).catch(() => undefined);
  }
}

function countSilence({ options, peers, silence }: Parts): void {
  const { cluster, settings, ownStatus, identity, clock } = options;
  const counts = countsSilence({
    isQuerying: isNeedy(ownStatus(), settings.fleet.activate === 'ordered'),
    hasIdentity: identity === undefined || identity.current() !== undefined,
    isApiComplete: isComplete(cluster),
    lastHeardMs: silence.lastHeardMs(),
    nowMs: clock.monotonic(),
  });
  silence.pass([...cluster.nodes().map(({ name }) => name), ...peers.nodeNames()], counts);
}

function servesOf({ own, port, options }: Parts): OwnServes | undefined | 'unknown' {
  const { cluster, settings } = options;
  if (!settings.fleet.serve) return undefined;
  const hasNoAddress = cluster.address() === undefined && cluster.nodes().length > 0;
  if (!own.hasAnswered() || !(port.wasTried() || hasNoAddress)) return 'unknown';
  const opened = port.endpoint();
  const endpoint = opened && announcedEndpoint(opened, cluster);
  if (endpoint === undefined || endpoint === 'unknown') return endpoint;
  return { address: endpoint.host, port: endpoint.port, bundles: own.bundles().map(({ bundleId }) => bundleId) };
}

/** What the daemon of this node last wrote about itself. */
interface OwnStatus {
  /** Undefined until the daemon wrote something that can be read. */
  report(): OwnReport | undefined;
  /** The part of it that other nodes get. */
  status(): NodeStatus | undefined;
  onChange(listener: () => void): Unsubscribe;
  stop(): void;
}

interface Followed {
  readonly file: string;
  readonly log: Log;
  readonly listeners: Listeners;
  text: string;
  report: OwnReport | undefined;
  status: NodeStatus | undefined;
  logged?: string | undefined;
}

/**
 * How often the file is checked, in milliseconds. A watch of a file that is replaced some times
 * within a millisecond, as during a preload, can be lost without a word.
 */
const CHECK_MS = 1_000;

/** Follows the `status.json` of the daemon. */
export async function followOwnStatus(file: string, log: Log): Promise<OwnStatus> {
  const own: Followed = { file, log, listeners: new Set(), text: '', report: undefined, status: undefined };
  const refresh = shareRuns(() => read(own));
  await refresh();
  const changed = () => void refresh().catch(() => undefined);
  watchFile(file, { interval: CHECK_MS, persistent: false }, changed);
  return {
    report: () => own.report,
    status: () => own.status,
    onChange: (listener) => listen(own.listeners, listener),
    stop: () => unwatchFile(file, changed),
  };
}

async function read(own: Followed): Promise<void> {
  const text = await readFile(own.file, 'utf8').catch((error: unknown) => {
    if (systemCodeOf(error) !== 'ENOENT') logUnusable(own, reasonOf(error));
    return '';
  });
  if (text === '' || text === own.text) return;
  own.text = text;
  const parsed = parseOwnReport(text);
  if (parsed.kind === 'foreign') return logUnusable(own, parsed.why);
  own.logged = undefined;
  own.report = parsed.report;
  own.status = nodeStatusOf(parsed.report);
  notifyAll(own.listeners);
}

function logUnusable(own: Followed, why: string): void {
  if (own.logged !== why) own.log.warn({}, `${own.file} can't be used, so other nodes hear nothing new: ${why}`);
  own.logged = why;
}
