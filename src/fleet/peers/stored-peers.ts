import { randomUUID } from 'node:crypto';
import { rename } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { formatEndpoint, parseEndpoint } from '../../domain/settings/addresses.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { isNoFile, readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { isLocal } from '../publish/own-report.ts';
import type { Cluster, ClusterNode } from '../trouble.ts';
import type { KnownPeer } from './peer.ts';

export interface StoredPeer {
  readonly name: string;
  /** Where it answered last or offers to, as `10.0.0.4:9777`. */
  readonly address?: string | undefined;
}

/** More nodes than a cluster has (kubernetes.io, "Considerations for large clusters"). */
const MOST_PEERS = 5_000;

const shortText = v.pipe(v.string(), v.minLength(1), v.maxLength(253));
const address = v.pipe(
  v.string(),
  v.check((text) => wellFormed(text) === text),
);
const storedPeers = v.object({
  version: v.literal(1),
  peers: v.pipe(v.array(v.object({ name: shortText, address: v.optional(address) })), v.maxLength(MOST_PEERS)),
});

/** A file for its owner only (mode 0600). */
export class PeerStore {
  constructor(
    private readonly path: string,
    private readonly log: Log,
  ) {}

  /** Local addresses are left out. A file that can't be used has no peers. */
  async load(signal: AbortSignal): Promise<readonly StoredPeer[]> {
    try {
      signal.throwIfAborted();
      const text = await readIfPresent(this.path);
      return text === undefined ? [] : v.parse(storedPeers, JSON.parse(text)).peers.map(withoutLocal);
    } catch (error) {
      const message = `${this.path} can't be used, so no peers of before are asked: ${reasonOf(error)}. It is written anew`;
      if (signal.aborted) return [];
      this.log.warn({ err: error }, message);
      // A file can't take the place of a folder.
      if (isNoFile(error)) await rename(this.path, `${this.path}.damaged-${randomUUID()}`).catch(() => undefined);
      return [];
    }
  }

  /** A failure is one line in the log. @returns whether it is written */
  async save(peers: readonly StoredPeer[], signal: AbortSignal): Promise<boolean> {
    const text = `${JSON.stringify({ version: 1, peers: peers.slice(0, MOST_PEERS) }, null, 2)}\n`;
    try {
      await replaceFile({ path: this.path, mode: 0o600 }, text, signal);
      return true;
    } catch (error) {
      if (!signal.aborted) this.log.warn({ err: error }, `${this.path} can't be written: ${reasonOf(error)}`);
      return false;
    }
  }
}

/** This node still waits for the node itself. */
function withoutLocal({ name, address }: StoredPeer): StoredPeer {
  const host = address === undefined ? undefined : parseEndpoint(address, 0)?.host;
  return host === undefined || isLocal(host) ? { name } : { name, address };
}

function wellFormed(text: string): string | undefined {
  const endpoint = parseEndpoint(text, 0);
  return endpoint && formatEndpoint(endpoint);
}

/** Then a node that the API server does not name is gone. */
export function isComplete(cluster: Pick<Cluster, 'nodes' | 'trouble'>): boolean {
  return cluster.trouble() === undefined && cluster.nodes().length > 0;
}

/** Between two writes, unless a node is new: one may change its address all the time. */
const WRITE_MS = 60_000;

/** Nodes that this node still waits for after a restart without an API server or a list of keys. */
export class RememberedPeers {
  private readonly inTurn = oneAtATime();
  private stored: readonly StoredPeer[] = [];
  private isUnwritten = false;
  /** Names of all nodes that were written since the start. */
  private readonly written = new Set<string>();
  /** Monotonic milliseconds. */
  private writtenMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly store: Pick<PeerStore, 'load' | 'save'>,
    private readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble' | 'isListed'>,
    private readonly clock: Pick<Clock, 'monotonic'>,
  ) {}

  /** By name. */
  list(): readonly StoredPeer[] {
    return this.stored;
  }

  async load(signal: AbortSignal): Promise<void> {
    this.stored = await this.store.load(signal);
  }

  /**
   * Stores the nodes of the Kubernetes API, once it shows all, or those of the list of keys.
   *
   * @param nodes those of the cluster, without addresses that are not used
   */
  async followCluster(nodes: readonly ClusterNode[], signal: AbortSignal): Promise<void> {
    const { cluster, stored } = this;
    if (!isComplete(cluster) && cluster.isListed !== true) return this.write(signal);
    const before = new Map(stored.map((one) => [one.name, one.address]));
    const others = nodes.filter(({ name }) => name !== cluster.self());
    const next = others.map(({ name, endpoint }): StoredPeer => {
      const address = endpoint === undefined ? before.get(name) : formatEndpoint(endpoint);
      return defined({ name, address });
    });
    // Nobody else removes a Node: without an API server a restart must not wait for it again.
    if (stored.some(({ name }) => !next.some((one) => one.name === name))) this.writtenMs = Number.NEGATIVE_INFINITY;
    if (isDeepStrictEqual(next, stored)) await this.write(signal);
    else await this.save(next, signal);
  }

  /** What was not written yet. */
  async close(): Promise<void> {
    this.writtenMs = Number.NEGATIVE_INFINITY;
    await this.write(NEVER_ABORTED);
  }

  /**
   * Stores where a node answered, unless the Kubernetes API has its address or knows that it is
   * gone.
   *
   * @returns whether it was not known
   */
  async answered({ target, node }: Pick<KnownPeer, 'target' | 'node'>, signal: AbortSignal): Promise<boolean> {
    const { cluster, stored } = this;
    const name = target.name ?? node;
    const address = formatEndpoint(target.endpoint);
    if (name === undefined || name === cluster.self()) return false;
    const shown = cluster.nodes().find((one) => one.name === name);
    if (isComplete(cluster) && (shown === undefined || shown.endpoint !== undefined)) return false;
    if (stored.some((one) => one.name === name && one.address === address)) return false;
    const others = stored.filter((one) => one.name !== name && one.address !== address);
    await this.save([...others, { name, address }], signal);
    return true;
  }

  private async save(next: readonly StoredPeer[], signal: AbortSignal): Promise<void> {
    const before = this.written.size;
    for (const { name } of next) this.written.add(name);
    if (this.written.size > before) this.writtenMs = Number.NEGATIVE_INFINITY;
    this.stored = next.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.isUnwritten = true;
    await this.write(signal);
  }

  private async write(signal: AbortSignal): Promise<void> {
    if (!this.isUnwritten || this.clock.monotonic() - this.writtenMs < WRITE_MS) return;
    this.isUnwritten = false;
    this.writtenMs = this.clock.monotonic();
    let isWritten = false;
    try {
      isWritten = await this.inTurn(signal, () => this.store.save(this.stored, signal));
    } finally {
      // The next call, or the end of the process, writes it.
      if (!isWritten) this.isUnwritten = true;
    }
  }
}
