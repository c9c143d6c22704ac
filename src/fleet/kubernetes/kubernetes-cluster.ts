import { isDeepStrictEqual } from 'node:util';
import { parseStatusAnnotation } from '../../domain/fleet/node-status.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import { Wake } from '../../platform/async/wake.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';
import { Observable } from '../../platform/subscription.ts';
import { SERVES_ANNOTATION, STATUS_ANNOTATION } from '../publish/node-status.ts';
import { parseServes } from '../publish/own-report.ts';
import { type Cluster, type ClusterNode, Trouble, WarnOnce } from '../trouble.ts';
import { backoffMs, isKubernetesError, type KubernetesApi, watchErrorOf } from './api.ts';
import {
  listNodes,
  type NodeMetadata,
  nodeMetadata,
  nodePath,
  type OwnFields,
  readMetadata,
  readNode,
  type WatchEvent,
  watchNodes,
} from './objects.ts';

/** Where packages put the rights for nodes to see each other. */
const FLEET_YAML = '/usr/share/doc/stickpin/fleet.yaml';

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

/** How long only the own Node is watched before all nodes are tried again. */
const OWN_WATCH_MS = 30_000;

/** A watch that ends after this time has worked. */
const STEADY_MS = 30_000;

/** An API server that starts refuses what rules allow until it has read them. */
const RULES_MS = 30_000;

/** So many in a row are no trouble. */
const USUAL_GONE = 3;

/** Between two lists while nobody needs other nodes; for each Node, and at least. */
const LIST_NODE_MS = 12_000;
const LIST_MS = 600_000;

/** It counts for each Node: all nodes of a cluster may need all of them at the same time. */
const SPREAD_NODE_MS = 20;

/** Between two reads of the Nodes of nodes that call. */
const MEET_MS = 1_000;
const MOST_CALLERS = 1_000;

/** `own`: others are hidden. `rest`: nobody needs them. */
type Scope = 'all' | 'own' | 'rest';

interface Position {
  readonly scope: Scope;
  readonly keys: Keys;
  resourceVersion: string;
}

/** Which labels are read, with whole Nodes; undefined: only metadata is read. */
type Keys = readonly string[] | undefined;

interface Listed {
  readonly scope: Scope;
  readonly keys?: Keys;
  readonly nodes: readonly NodeMetadata[];
  readonly resourceVersion: string;
  /** Why others are hidden. */
  readonly refusal?: unknown;
}

/** What the Kubernetes API shows. Only metadata is read, and the whole own Node. */
export class KubernetesCluster extends Observable implements Cluster {
  /** The API does not answer properly. */
  private readonly away: Trouble;
  /** The API ends each watch at once. */
  private readonly unwatched: Trouble;
  /** Only the own Node is visible. */
  private readonly limited: Trouble;
  /** Addresses that are not used. */
  private readonly refusals: WarnOnce;
  private name: string;
  private ownAddress: string | undefined;
  private own: OwnFields | undefined;
  private known = new Map<string, ClusterNode>();
  private hasAnswered = false;
  private isMissing = false;
  /** Since when others are hidden, in monotonic milliseconds. */
  private hiddenMs: number | undefined;
  /** Some API servers end each watch that requests bookmarks. */
  private hasBookmarks = true;
  /** Watches in a row that ended at once. */
  private brief = 0;
  private isNeeded = true;
  private wantedKeys: Keys;
  private keys: Keys;
  private scope: Scope = 'rest';
  private isResting = false;
  /** Monotonic milliseconds. */
  private nextListMs = Number.NEGATIVE_INFINITY;
  /** Ends a watch of the own Node. */
  private waking = new AbortController();
  private readonly wake: Wake;
  private readonly called: Wake;
  private readonly callers = new Set<string>();

  constructor(private readonly options: KubernetesClusterOptions) {
    super();
    const { log, clock, hostname } = options;
    this.name = hostname;
    this.wake = new Wake(clock);
    this.called = new Wake(clock);
    this.away = new Trouble(log, clock);
    this.unwatched = new Trouble(log, clock);
    this.limited = new Trouble(log, clock);
    this.refusals = new WarnOnce(log, clock);
  }

  self(): string {
    return this.name;
  }

  address(): string | undefined {
    return this.ownAddress;
  }

  readLabels(): Keys {
    return this.keys;
  }

  isRemoved(): boolean {
    return this.isMissing;
  }

  /** Stickpin's metadata of the own Node; undefined until it was read. */
  ownFields(): OwnFields | undefined {
    return this.own;
  }

  nodes(): readonly ClusterNode[] {
    return [...this.known.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  trouble(): string | undefined {
    const [first] = [this.away, this.unwatched, this.limited].flatMap((one) => one.current() ?? []);
    return first ?? (this.hasAnswered ? undefined : 'It was not asked yet.');
  }

  isOld(): boolean {
    return this.isResting && this.trouble() === undefined;
  }

  need(isNeeded: boolean, isUrgent = false, keys?: readonly string[]): void {
    this.isNeeded = isNeeded;
    this.wantedKeys = keys;
    if (this.scope === 'all' && this.lacksKeys()) this.waking.abort();
    if (!isNeeded || !this.isResting) return;
    this.waking.abort();
    if (isUrgent) this.wake.kick();
  }

  private lacksKeys(): boolean {
    const { wantedKeys, keys } = this;
    return wantedKeys !== undefined && !(keys !== undefined && wantedKeys.every((key) => keys.includes(key)));
  }

  meet(node: string): void {
    if (!this.isOld() || node === this.name || this.callers.size >= MOST_CALLERS) return;
    this.callers.add(node);
    this.called.kick();
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.runWatch(signal), this.meetCallers(signal)]);
  }

  private async runWatch(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.options;
    let failures = 0;
    while (!signal.aborted) {
      let listedAt: number | undefined;
      try {
        const position = await this.begin(signal);
        listedAt = clock.monotonic();
        await this.follow(position, signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const wasSteady = listedAt !== undefined && clock.monotonic() - listedAt >= STEADY_MS;
        failures = wasSteady ? 1 : failures + 1;
        // Forgotten changes are no trouble at first: all nodes are listed again.
        const isUsual = isKubernetesError(error, 'kubernetes/gone') && failures <= USUAL_GONE;
        if (listedAt === undefined && !isUsual) this.logAway(error);
        if (listedAt !== undefined && !isUsual && failures > 1) this.logUnwatched(error);
        await clock.sleep(backoffMs(failures, error, random()), signal).catch(() => undefined);
      }
    }
  }

  private async begin(signal: AbortSignal): Promise<Position> {
    const { clock, random } = this.options;
    if (this.isResting && this.isNeeded) await this.wake.wait(random() * this.known.size * SPREAD_NODE_MS, signal);
    await this.readOwnNode(signal);
    const isDue = clock.monotonic() >= this.nextListMs || this.limited.current() !== undefined;
    const isListed = this.isNeeded || isDue;
    const visible = isListed ? await this.listVisible(signal) : await this.listOwn(signal);
    const { scope, keys, nodes, resourceVersion } = visible;
    const listed = nodes.map((node) => [node.name, this.nodeOf(node)] as const);
    const known = new Map([...(scope === 'rest' ? this.known : []), ...listed]);
    const ownNode = nodes.find(({ name }) => name === this.name);
    const fields = ownNode && fieldsOf(ownNode);
    const isSame =
      isDeepStrictEqual(known, this.known) && isDeepStrictEqual(fields, this.own) && isDeepStrictEqual(keys, this.keys);
    this.keys = keys;
    this.isMissing = false;
    this.known = known;
    this.own = fields;
    const isBack = this.away.end('The Kubernetes API answers again') || !this.hasAnswered;
    this.hasAnswered = true;
    if (scope === 'all') this.planList();
    const isOther = scope !== 'rest' && this.setLimited(visible);
    const wasResting = this.isResting;
    this.isResting = scope === 'rest' || (scope === 'all' && !this.isNeeded);
    if (!isSame || isBack || isOther || wasResting !== this.isResting) this.notify();
    this.scope = this.isResting ? 'rest' : scope;
    return { scope: this.scope, keys, resourceVersion };
  }

  /** Addresses are not in the metadata. */
  private async readOwnNode(signal: AbortSignal): Promise<void> {
    const { api, hostname } = this.options;
    const { nodeName: self = hostname } = await api.credentials(signal);
    const isRenamed = self !== this.name;
    this.name = self;
    if (isRenamed) this.notify();
    const node = readNode(await api.send({ method: 'GET', path: nodePath(self) }, signal));
    const address = node.status.addresses?.find(({ type }) => type === 'InternalIP')?.address;
    const isSame = address === this.ownAddress;
    this.ownAddress = address;
    if (!isSame) this.notify();
  }

  private planList(): void {
    const { clock, random } = this.options;
    const leastMs = Math.max(LIST_MS, this.known.size * LIST_NODE_MS);
    this.nextListMs = clock.monotonic() + leastMs * (1 + random());
  }

  private async listOwn(signal: AbortSignal): Promise<Listed> {
    return { scope: 'rest', ...(await listNodes(this.options.api, { only: this.name }, signal)) };
  }

  private async listVisible(signal: AbortSignal): Promise<Listed> {
    const { api, clock } = this.options;
    try {
      const keys = this.wantedKeys;
      const all = await listNodes(api, { keys }, signal);
      this.hiddenMs = undefined;
      return { scope: 'all', keys, ...all };
    } catch (error) {
      if (!isKubernetesError(error, 'kubernetes/forbidden')) throw error;
      this.hiddenMs ??= clock.monotonic();
      if (this.known.size > 1 && clock.monotonic() - this.hiddenMs < RULES_MS) throw error;
      return { scope: 'own', refusal: error, ...(await listNodes(api, { only: this.name }, signal)) };
    }
  }

  /** Called when the nodes change, or this node would seem to be alone for a moment. */
  private setLimited({ scope, refusal }: Listed): boolean {
    if (scope === 'all') return this.limited.end('All nodes of the cluster are shown to this node now');
    const text = `The cluster does not show other nodes to this one (${reasonOf(refusal)}). 'kubectl apply -f ${FLEET_YAML}' lets nodes see each other, once for the whole cluster.`;
    return this.limited.begin(text, refusal);
  }

  /** Ends when everything has to be read again. */
  private async follow(position: Position, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.options;
    const { scope } = position;
    for (;;) {
      const beganAt = clock.monotonic();
      const leftMs = scope === 'rest' ? Math.max(1_000, this.nextListMs - beganAt) : Number.POSITIVE_INFINITY;
      const forMs = Math.min(Math.round((scope === 'own' ? OWN_WATCH_MS : WATCH_MS) * (1 + random())), leftMs);
      await this.watchFor(position, forMs, signal);
      this.endUnwatched();
      const lastedMs = clock.monotonic() - beganAt;
      const isShort = lastedMs < Math.min(forMs, WATCH_MS) / 2 && !this.waking.signal.aborted;
      this.brief = isShort && lastedMs < STEADY_MS ? this.brief + 1 : 0;
      if (isShort) await clock.sleep(backoffMs(Math.max(1, this.brief), undefined, random()), signal);
      if (scope === 'all' && !this.isNeeded) this.planList();
      if (scope !== 'all' || !this.isNeeded || this.lacksKeys() || (position.keys && !this.wantedKeys)) return;
      await this.readOwnNode(signal);
    }
  }

  /** A watch of the own Node ends when others are needed. */
  private async watchFor(position: Position, forMs: number, signal: AbortSignal): Promise<void> {
    this.waking = new AbortController();
    if ((position.scope === 'rest' && this.isNeeded) || (position.scope === 'all' && this.lacksKeys())) return;
    const only = position.scope === 'all' ? undefined : this.name;
    const { signal: either, release } = linkSignals([signal, this.waking.signal]);
    try {
      const keys = position.scope === 'all' ? position.keys : undefined;
      const watch = { ...position, only, keys, forMs, hasBookmarks: this.hasBookmarks };
      for await (const event of watchNodes(this.options.api, watch, either)) {
        const isOwn = this.received(position, event);
        // Addresses may come later; the node may be cordoned.
        if (isOwn) await this.readOwnNode(either);
      }
    } catch (error) {
      if (!this.waking.signal.aborted) throw error;
    } finally {
      release();
    }
    signal.throwIfAborted();
  }

  /** Reads one Node after the other: only a new node, or one with another address, is not known. */
  private async meetCallers(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.options;
    let failures = 0;
    while (!signal.aborted) {
      const [name] = this.callers;
      if (name === undefined) {
        await this.called.wait(LIST_MS, signal);
        continue;
      }
      this.callers.delete(name);
      const error: unknown = await this.readCaller(name, signal).catch((thrown: unknown) => thrown);
      const isGone = error === undefined || isKubernetesError(error, 'kubernetes/not-found');
      failures = isGone ? 0 : failures + 1;
      await clock.sleep(isGone ? MEET_MS : backoffMs(failures, error, random()), signal).catch(() => undefined);
    }
  }

  private async readCaller(name: string, signal: AbortSignal): Promise<void> {
    const node = this.nodeOf(await readMetadata(this.options.api, name, signal));
    if (!this.isOld() || isDeepStrictEqual(this.known.get(name), node)) return;
    this.known.set(name, node);
    this.notify();
  }

  /** @returns whether the own Node has changed */
  private received(position: Position, event: WatchEvent): boolean {
    if (event.type === 'ERROR') {
      const error = watchErrorOf('/api/v1/nodes', event.object);
      if (error.code === 'kubernetes/no-bookmarks') this.hasBookmarks = false;
      throw error;
    }
    this.endUnwatched();
    const { resourceVersion } = event.object.metadata;
    if (resourceVersion !== '') position.resourceVersion = resourceVersion;
    if (event.type === 'BOOKMARK') return false;
    const metadata = nodeMetadata(event.object, position.keys ?? []);
    const isOwn = metadata.name === this.name;
    const before = { node: this.known.get(metadata.name), own: this.own };
    const now = event.type === 'DELETED' ? undefined : this.nodeOf(metadata);
    if (now === undefined) this.known.delete(metadata.name);
    else this.known.set(metadata.name, now);
    if (isOwn) this.own = now && fieldsOf(metadata);
    if (!isDeepStrictEqual(before, { node: now, own: this.own })) this.notify();
    return isOwn && event.type !== 'DELETED';
  }

  private nodeOf(metadata: NodeMetadata): ClusterNode {
    const { name } = metadata;
    return clusterNodeOf(metadata, (address) => {
      const text = `Node ${name} offers bundles at ${address}, which is no address of one machine in a network: it is not asked there. Set fleet.listen on it to its address in the cluster, or "auto"`;
      this.refusals.warn(name, address, { node: name }, text);
    });
  }

  private logAway(error: unknown): void {
    const known = this.known.size === 0 ? '' : ' The nodes that were known stay known.';
    const text = isKubernetesError(error, 'kubernetes/not-found')
      ? `Kubernetes has no Node ${this.name}, which the kubelet of this node registers.${known} It is tried again.`
      : `The Kubernetes API can't be read: ${sentence(reasonOf(error))}${known} It is tried again.`;
    this.isMissing = isKubernetesError(error, 'kubernetes/not-found');
    if (this.away.begin(text, error)) this.notify();
  }

  private logUnwatched(error: unknown): void {
    const text = `The Kubernetes API does not tell changes of nodes: ${sentence(reasonOf(error))} All nodes are listed again instead, less and less often.`;
    if (this.unwatched.begin(text, error)) this.notify();
  }

  private endUnwatched(): void {
    if (this.unwatched.end('The Kubernetes API tells changes of nodes again')) this.notify();
  }
}

function fieldsOf({ annotations, labels }: NodeMetadata): OwnFields {
  return { annotations, labels };
}

interface NodeAnnotations extends Partial<Pick<NodeMetadata, 'annotations' | 'facts'>> {
  readonly name: string;
}

/**
 * Unreadable annotations count as absent.
 *
 * @param onRefused called with an address that is not used; see {@link parseServes}
 */
export function clusterNodeOf(
  { name, annotations = {}, facts }: NodeAnnotations,
  onRefused: (address: string) => void = () => undefined,
): ClusterNode {
  const status = parseStatusAnnotation(annotations[STATUS_ANNOTATION] ?? '');
  const serves = parseServes(annotations[SERVES_ANNOTATION] ?? '');
  if (serves?.refused !== undefined) onRefused(serves.refused);
  return defined({ name, endpoint: serves?.endpoint, serves: serves?.bundles ?? [], status, facts });
}
