import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { TurnRelease } from '../../domain/fleet/awaited-node.ts';
import type { FleetKeys, NodeStatus, ShownRollOut } from '../../domain/fleet/node-status.ts';
import type { Pause } from '../../domain/fleet/pause.ts';
import { nodesLoading, searchOf } from '../../domain/fleet/turn.ts';
import type { Endpoint } from '../../domain/settings/addresses.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { FleetLock } from '../../fleet/fleet-lock.ts';
import type { IdentityKeeper } from '../../fleet/identity/identity.ts';
import { answerDaemon, fleetDocument, WrittenStatuses } from '../../fleet/peers/fleet-document.ts';
import { isNeedy } from '../../fleet/peers/peer.ts';
import { Peers } from '../../fleet/peers/peers.ts';
import { countsSilence, Silence } from '../../fleet/peers/silence.ts';
import { isComplete, PeerStore } from '../../fleet/peers/stored-peers.ts';
import { nodeStatusOf } from '../../fleet/publish/node-status.ts';
import { announcedEndpoint, type OwnReport, type OwnServes, parseOwnReport } from '../../fleet/publish/own-report.ts';
import { NodePort, serveNodes } from '../../fleet/serve/node-port.ts';
import { type AnswerOptions, answerNode, OwnOffers } from '../../fleet/serve/own-offers.ts';
import { Pace, ServedNodes } from '../../fleet/serve/served-nodes.ts';
import { type Cluster, fleetStatusLine, Trouble, WarnOnce } from '../../fleet/trouble.ts';
import { OffersClient } from '../../fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../fleet/wire/connection.ts';
import { type FleetDocument, fleetPaths, NEWS, wireLimits } from '../../fleet/wire/documents.ts';
import { serveSocket, type WatchedDocument } from '../../fleet/wire/server.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';
import { Wake } from '../../platform/async/wake.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { Observable, together, type Unsubscribe } from '../../platform/subscription.ts';
import type { ServiceNotifier } from '../../ports/node.ts';

interface FleetOptions {
  readonly settings: Settings;
  readonly cluster: Cluster;
  /** What the daemon of this node last reported about its releases. */
  readonly ownStatus: () => NodeStatus | undefined;
  readonly onOwnStatus: (listener: () => void) => Unsubscribe;
  /** Keys of the labels that releases need which wait for their turn; undefined: none waits. */
  readonly readLabels: () => readonly string[] | undefined;
  readonly pauses: () => readonly Pause[] | undefined;
  /** How far the roll-outs are that this node takes part in. */
  readonly rollOuts?: () => readonly ShownRollOut[];
  /** Releases on sticks in this node. */
  readonly onSticks: () => readonly TurnRelease[];
  readonly notifier: ServiceNotifier;
  readonly clock: Clock;
  readonly log: Log;
  /** Who this node is; undefined with `fleet.auth = "none"`. */
  readonly identity: IdentityKeeper | undefined;
  /** Undefined without `update.fleet_lock`. */
  readonly lock?: FleetLock | undefined;
}

/** How often STATUS and silence are brought up to date. */
const TICK_MS = 2_000;

/** A command that follows the cluster renews its request within this time. */
const FOLLOWED_MS = 60_000;

/** How long a command waits for the Nodes. */
const REFRESH_MS = 5_000;

/** The fleet process. Nothing runs before {@link run}. */
export class Fleet {
  private readonly peers: Peers;
  private readonly own: OwnOffers;
  private readonly port: NodePort;
  private readonly silence: Silence;
  private readonly written: WrittenStatuses;
  private readonly nodes: ServedNodes;
  private readonly daemon: WireConnection;
  private readonly beganMs: number;
  private readonly namesakes: Trouble;
  private isNeedy = false;
  /** When a command that follows the cluster ends, in monotonic milliseconds. */
  private followedUntilMs = Number.NEGATIVE_INFINITY;
  private offered: ReadonlySet<string> = new Set();

  constructor(private readonly options: FleetOptions) {
    const { settings, cluster, identity, clock, log } = options;
    const ownStatus = () => this.ownStatus();
    this.beganMs = clock.monotonic();
    this.namesakes = new Trouble(log);
    const { fleet } = settings;
    const paths = fleetPaths(settings.paths);
    const warnings = new WarnOnce(log, clock);
    this.daemon = new WireConnection({
      who: 'the daemon',
      connect: unixSocket(paths.offersSocket),
      // All that nodes with a turn may request, and room for those that only list the offers.
      maxConnections: wireLimits.ofNode * (fleet.max_clients + 2),
    });
    const self = () => cluster.self();
    this.own = new OwnOffers({ client: new OffersClient(this.daemon), self, status: ownStatus, clock, log });
    this.silence = new Silence(fleet.absent, clock);
    const onHeard = (node: string) => this.silence.heard(node);
    this.written = new WrittenStatuses(cluster, clock, onHeard);
    const { silence } = this;
    const ways = { identity: identity && (() => identity.current()), clock, onHeard };
    const store = new PeerStore(join(paths.stateDir, 'peers.json'), log);
    this.peers = new Peers({ ...ways, settings: fleet, cluster, store, warnings, ownStatus });
    this.nodes = new ServedNodes(fleet, clock);
    const { own, daemon, nodes } = this;
    const answers: AnswerOptions = { own, daemon, nodes, pace: new Pace(fleet.rate, clock), clock, log };
    const answer = (node: string, request: IncomingMessage, response: ServerResponse) => {
      silence.heard(node);
      if (request.url?.endsWith(NEWS) === true) this.peers.calledBy(node);
      return answerNode(node, request, response, answers);
    };
    const isPeerAddress = (address: string) => this.peers.hasAddress(address);
    const serve = (endpoint: Endpoint) => serveNodes({ ...ways, endpoint, warnings, isPeerAddress, answer });
    this.port = new NodePort({ setting: fleet.listen, cluster, stateDir: paths.stateDir, clock, log, serve });
  }

  /**
   * What this node gives to others, and where; undefined while it gives nothing. `unknown` after a
   * start, until the daemon has reported it and the port was opened.
   */
  serves(): OwnServes | undefined | 'unknown' {
    const { own, port } = this;
    const { cluster, settings } = this.options;
    if (!settings.fleet.serve) return undefined;
    const hasNoAddress = cluster.address() === undefined && cluster.nodes().length > 0;
    if (!own.hasAnswered() || !(port.wasTried() || hasNoAddress)) return 'unknown';
    const opened = port.endpoint();
    const endpoint = opened && announcedEndpoint(opened, cluster);
    if (endpoint === undefined || endpoint === 'unknown') return endpoint;
    return { address: endpoint.host, port: endpoint.port, bundles: own.bundles().map(({ bundleId }) => bundleId) };
  }

  private ownStatus(): NodeStatus | undefined {
    return this.options.ownStatus();
  }

  /** Whether the daemon of this node does not answer now. */
  isDaemonAway(): boolean {
    return this.own.isDaemonAway();
  }

  /** Calls `listener` when one of these may have changed. */
  onServes(listener: () => void): Unsubscribe {
    return together([this.own.onChange(listener), this.port.onChange(listener)]);
  }

  /** Runs until `signal` aborts. @throws AppError `offers/listen` */
  async run(signal: AbortSignal): Promise<void> {
    const { peers, own, port, written, daemon } = this;
    const { settings, cluster, identity, lock, notifier, clock, log } = this.options;
    // Without them the daemon would take this node for one that is alone.
    await peers.load(signal);
    const answers = { fleet: this.document(), refresh: this.refresh.bind(this), peers, clock, log };
    const socket = await serveSocket(fleetPaths(settings.paths).peersSocket, (request, response) =>
      answerDaemon(request, response, answers),
    );
    const unsubscribe = together([
      cluster.onChange(() => written.refresh()),
      own.onChange(() => this.callOthers()),
      this.options.onOwnStatus(() => {
        own.notify();
        this.needNodes();
        peers.statusChanged();
      }),
    ]);
    notifier.ready();
    log.info({ messageId: messageIds.fleetStarted }, `The fleet process started on ${cluster.self()}`);
    const work = [cluster, own, peers].map((part) => part.run(signal));
    work.push(this.tick(signal));
    if (identity !== undefined) work.push(identity.run(signal));
    if (lock !== undefined) work.push(lock.run(signal));
    if (settings.fleet.serve) work.push(port.run(signal));
    try {
      await Promise.all(work);
    } finally {
      unsubscribe();
      await socket.close();
      daemon.close();
    }
  }

  /** Others are followed while this node needs them, and are called when it begins to. */
  private needNodes(): void {
    const { peers, port, nodes } = this;
    const { cluster, settings, clock } = this.options;
    const wasNeedy = this.isNeedy;
    this.isNeedy = isNeedy(this.ownStatus(), settings.fleet.activate === 'ordered');
    if (this.isNeedy && !wasNeedy) peers.callAll();
    const isFollowed = clock.monotonic() < this.followedUntilMs;
    // Nobody can call it.
    const isShut = port.endpoint() === undefined;
    const isTaken = nodes.served().length > 0 || nodes.waiting() > 0;
    const isOwn = this.isNeedy || isFollowed || isShut || isTaken;
    const labels = this.options.readLabels();
    const isNeeded = isOwn || labels !== undefined || peers.isNewsMissed() || this.isStickNeeded();
    cluster.need(isNeeded, isFollowed, labels);
  }

  private isStickNeeded(): boolean {
    const releases = this.options.onSticks();
    if (releases.length === 0) return false;
    const view = this.view();
    return releases.some((release) => nodesLoading(release, view, true) !== undefined);
  }

  /** Called when this node offers a bundle that it did not offer before. */
  private callOthers(): void {
    const before = this.offered;
    this.offered = new Set(this.own.bundles().map(({ bundleId }) => bundleId));
    if ([...this.offered].some((id) => !before.has(id))) this.peers.callAll();
  }

  /** A command wants to see the cluster as it is now. */
  private async refresh(signal: AbortSignal): Promise<void> {
    const { cluster, clock } = this.options;
    this.followedUntilMs = clock.monotonic() + FOLLOWED_MS;
    const untilMs = clock.monotonic() + REFRESH_MS;
    const wake = new Wake(clock);
    const unsubscribe = cluster.onChange(() => wake.kick());
    this.needNodes();
    while (cluster.isOld() && clock.monotonic() < untilMs) await wake.wait(untilMs - clock.monotonic(), signal);
    unsubscribe();
  }

  private keys(): FleetKeys | undefined {
    const { settings, cluster, identity } = this.options;
    if (settings.fleet.auth !== 'keys') return undefined;
    return defined({
      isRead: cluster.isListed === true,
      trouble: identity?.fault() ?? this.peers.namesakes(),
    });
  }

  private view(): FleetDocument {
    const { peers, written, silence } = this;
    const { settings, cluster, lock, pauses, clock } = this.options;
    const ownStatus = () => this.ownStatus();
    const rollOuts = this.options.rollOuts?.() ?? [];
    const search = () => searchOf(clock.monotonic() - this.beganMs, settings.fleet.absent);
    const document = fleetDocument({
      peers,
      written,
      silence,
      cluster,
      ownStatus,
      search,
      lock: lock?.view(),
      pauses: pauses(),
      exclude: settings.fleet.exclude,
      rollOuts,
    });
    return defined({ ...document, keys: this.keys() });
  }

  private document(): WatchedDocument {
    const { peers } = this;
    const { cluster, onOwnStatus, lock, identity } = this.options;
    return {
      current: async () => this.view(),
      onChange: (listener) =>
        together([
          peers.onChange(listener),
          cluster.onChange(listener),
          onOwnStatus(listener),
          lock?.onChange(listener),
          identity?.onChange(listener),
        ]),
    };
  }

  /** STATUS, and how long nodes have been silent. */
  private async tick(signal: AbortSignal): Promise<void> {
    const { peers, own, port, nodes } = this;
    const { settings, cluster, notifier, clock } = this.options;
    while (!signal.aborted) {
      this.needNodes();
      this.countSilence();
      const namesakes = peers.namesakes();
      if (namesakes === undefined) this.namesakes.end('Each host has a name and a key of its own');
      else this.namesakes.begin(namesakes);
      notifier.status(
        fleetStatusLine({
          served: nodes.served(),
          waiting: nodes.waiting(),
          endpoint: port.endpoint(),
          offered: own.bundles().length,
          peers: peers.list(),
          apiTrouble: settings.fleet.auth === 'keys' ? undefined : cluster.trouble(),
          keysTrouble: this.keys()?.trouble,
        }),
      );
      await clock.sleep(TICK_MS, signal).catch(() => undefined);
    }
  }

  private countSilence(): void {
    const { peers, silence } = this;
    const { cluster, identity, clock } = this.options;
    // A node whose port is blocked and that has nothing to write is silent and lives.
    for (const { name, status, facts } of cluster.nodes()) {
      if (status !== undefined && facts?.isReady === true && cluster.trouble() === undefined) silence.isAlive(name);
    }
    const counts = countsSilence({
      isQuerying: this.isNeedy,
      hasIdentity: identity === undefined || identity.current() !== undefined,
      isApiComplete: isComplete(cluster),
      lastHeardMs: silence.lastHeardMs(),
      nowMs: clock.monotonic(),
    });
    silence.pass([...cluster.nodes().map(({ name }) => name), ...peers.nodeNames()], counts);
  }
}

/**
 * How often the file is checked, in milliseconds. A watch of a file that is replaced some times
 * within a millisecond, as during a preload, can be lost without a word.
 */
const CHECK_MS = 1_000;

/** What the daemon of this node last wrote about itself, in its `status.json`. */
export class OwnStatus extends Observable {
  private text = '';
  private last: { readonly report: OwnReport; readonly status: NodeStatus } | undefined;
  private logged: string | undefined;
  private readonly refresh = shareRuns(() => this.read());
  private readonly changed = () => void this.refresh().catch(() => undefined);

  constructor(
    private readonly file: string,
    private readonly log: Log,
  ) {
    super();
  }

  async start(): Promise<void> {
    await this.refresh();
    watchFile(this.file, { interval: CHECK_MS, persistent: false }, this.changed);
  }

  /** Undefined until the daemon wrote something that can be read. */
  report(): OwnReport | undefined {
    return this.last?.report;
  }

  /** The part of it that other nodes get. */
  status(): NodeStatus | undefined {
    return this.last?.status;
  }

  stop(): void {
    unwatchFile(this.file, this.changed);
  }

  private async read(): Promise<void> {
    const text = await readFile(this.file, 'utf8').catch((error: unknown) => {
      if (systemCodeOf(error) !== 'ENOENT') this.logUnusable(reasonOf(error));
      return '';
    });
    if (text === '' || text === this.text) return;
    this.text = text;
    const parsed = parseOwnReport(text);
    if (parsed.kind === 'foreign') return this.logUnusable(parsed.why);
    const { report } = parsed;
    this.logged = undefined;
    this.last = { report, status: nodeStatusOf(report) };
    this.notify();
  }

  private logUnusable(why: string): void {
    if (this.logged !== why) this.log.warn({}, `${this.file} can't be used, so other nodes hear nothing new: ${why}`);
    this.logged = why;
  }
}
