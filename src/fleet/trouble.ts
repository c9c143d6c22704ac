import type { NodeFacts, NodeStatus, Peer } from '../domain/fleet/node-status.ts';
import type { BundleId } from '../domain/model/digest.ts';
import { type Endpoint, formatEndpoint } from '../domain/settings/addresses.ts';
import { AppError, type Disposition } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log, LogFields } from '../platform/log.ts';
import { formatBytes, formatCount } from '../platform/sizes.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { ServedNode } from './serve/served-nodes.ts';

/**
 * In milliseconds: daemon, API server and Node start at the same time, so only longer waits are
 * logged.
 */
const USUAL_MS = 30_000;

/** A fault that lasts: logged at its begin and its end. */
export class Trouble {
  private text: string | undefined;
  private sinceMs = 0;
  private isLogged = false;

  /** @param clock logged by a further `begin` after half a minute; without: logged at once */
  constructor(
    private readonly log: Log,
    private readonly clock?: Clock,
  ) {}

  current(): string | undefined {
    return this.text;
  }

  /**
   * Logged once, when it begins or has lasted: further failures change what `current` says.
   *
   * @returns whether that changed
   */
  begin(text: string, error?: unknown): boolean {
    const before = this.text;
    this.text = text;
    const { clock } = this;
    const nowMs = clock?.monotonic() ?? 0;
    if (before === undefined) this.sinceMs = nowMs;
    if (!this.isLogged && (clock === undefined || nowMs - this.sinceMs >= USUAL_MS)) {
      this.isLogged = true;
      this.log.warn(error === undefined ? {} : { err: error }, text);
    }
    return before !== text;
  }

  /** Logged with `text` if the begin was. @returns whether it had begun */
  end(text: string): boolean {
    if (this.text === undefined) return false;
    this.text = undefined;
    if (this.isLogged) this.log.info({}, text);
    this.isLogged = false;
    return true;
  }
}

export interface ClusterNode {
  readonly name: string;
  /** Absent when it gives no bundles. */
  readonly endpoint?: Endpoint;
  readonly serves: readonly BundleId[];
  /** Absent when none can be read. */
  readonly status?: NodeStatus;
  readonly facts?: NodeFacts;
}

/** What the Kubernetes API shows. */
export interface Cluster {
  self(): string;
  /** The first `InternalIP`; undefined while unknown. */
  address(): string | undefined;
  /** Keys of the labels that {@link NodeFacts} has, with all of it; undefined while it has less. */
  readLabels(): readonly string[] | undefined;
  /** Kubernetes has no Node of this name. */
  isRemoved(): boolean;
  /**
   * By name, with the own one. While the API server does not answer: the last known ones. Empty
   * until it answered once.
   */
  nodes(): readonly ClusterNode[];
  /** Why this is incomplete or old, as one sentence. */
  trouble(): string | undefined;
  /** Nobody needed it for a time, so other nodes may have changed. */
  isOld(): boolean;
  /** Called after any change of the above. */
  onChange(listener: () => void): Unsubscribe;
  /**
   * Whether other nodes are followed. Else they are only listed now and then. Initially they are.
   *
   * @param isUrgent otherwise nodes of a large cluster begin one after the other
   * @param labels keys of labels: with these, `Ready` and cordons are read of all Nodes, whole
   */
  need(isNeeded: boolean, isUrgent?: boolean, labels?: readonly string[]): void;
  /** Reads the Node of another node that called, while nothing is followed. */
  meet(node: string): void;
  /** Never throws: faults are `trouble()`, with one line in the log at begin and end. */
  run(signal: AbortSignal): Promise<void>;
  /** A list of keys names all nodes. Undefined where the Kubernetes API does. */
  readonly isListed?: boolean;
}

/**
 * - `fleet/identity`: the kubelet's certificate, its key or its authorities, or the list of keys
 *   can't be used;
 * - `fleet/refused`: the other end did not prove that it is a node of this cluster;
 * - `fleet/unreachable`: the other end does not answer, or not in time;
 * - `fleet/answer`: the answer is malformed;
 * - `fleet/listen`: an address or socket can't be opened.
 */
type FleetErrorCode = 'fleet/identity' | 'fleet/refused' | 'fleet/unreachable' | 'fleet/answer' | 'fleet/listen';

export function fleetError(
  code: FleetErrorCode,
  message: string,
  { disposition = 'retry', cause }: { readonly disposition?: Disposition; readonly cause?: unknown } = {},
): AppError<FleetErrorCode> {
  return new AppError({ code, message, disposition, cause });
}

const AGAIN_MS = 60 * 60_000;

/** Strangers can make up any number of peers and causes. */
const MOST_REMEMBERED = 1_000;

/** Lines a minute, about all peers. */
const MOST_LINES = 30;
const MINUTE_MS = 60_000;

/** Logs the same warning about a peer once, however often it happens. */
export class WarnOnce {
  private minute = { beganMs: Number.NEGATIVE_INFINITY, lines: 0 };
  /** When each cause was logged, by peer. */
  private readonly warned = new Map<string, Map<string, number>>();

  constructor(
    private readonly log: Log,
    private readonly clock: Clock,
  ) {}

  /** At most once an hour. */
  warn(peer: string, cause: string, fields: LogFields, message: string): void {
    const causes = this.warned.get(peer) ?? new Map<string, number>();
    const before = causes.get(cause);
    if (before !== undefined && this.clock.monotonic() - before < AGAIN_MS) return;
    const [oldest] = this.warned.keys();
    if (this.warned.size >= MOST_REMEMBERED && oldest !== undefined) this.warned.delete(oldest);
    causes.set(cause, this.clock.monotonic());
    this.warned.set(peer, causes);
    this.write(fields, message);
  }

  private write(fields: LogFields, message: string): void {
    const nowMs = this.clock.monotonic();
    if (nowMs - this.minute.beganMs >= MINUTE_MS) this.minute = { beganMs: nowMs, lines: 0 };
    this.minute.lines += 1;
    if (this.minute.lines <= MOST_LINES) this.log.warn(fields, message);
    if (this.minute.lines === MOST_LINES + 1) {
      this.log.warn({}, `More than ${MOST_LINES} warnings about other nodes in a minute: the rest of it is left out`);
    }
  }

  /** The next warning is logged again. */
  over(peer: string): void {
    this.warned.delete(peer);
  }
}

interface FleetStatus {
  readonly served: readonly ServedNode[];
  readonly waiting: number;
  /** Undefined while other nodes can't reach this one. */
  readonly endpoint: Endpoint | undefined;
  /** Number of bundles. */
  readonly offered: number;
  readonly peers: readonly Pick<Peer, 'trouble'>[];
  readonly apiTrouble: string | undefined;
  readonly keysTrouble?: string | undefined;
}

const NAMED = 4;

/** `STATUS=` of the fleet process: served nodes, rate, reachable nodes. */
export function fleetStatusLine(status: FleetStatus): string {
  const { peers, apiTrouble, keysTrouble } = status;
  const answering = peers.filter(({ trouble }) => trouble === undefined).length;
  const reached =
    peers.length === 0 ? 'No other node is known.' : `${answering} of ${formatCount(peers.length, 'peer')} answer.`;
  const api = apiTrouble === undefined ? '' : ` Kubernetes API: ${apiTrouble}`;
  const keys = keysTrouble === undefined ? '' : ` Keys: ${keysTrouble}.`;
  return `${serving(status)} ${reached}${api}${keys}`;
}

function serving({ served, waiting, endpoint, offered }: FleetStatus): string {
  if (endpoint === undefined) return 'Gives nothing to other nodes.';
  if (served.length === 0) return `Offers ${formatCount(offered, 'bundle')} on ${formatEndpoint(endpoint)}.`;
  const named = served.slice(0, NAMED).map(({ name, bytesPerSecond }) => `${name} (${formatBytes(bytesPerSecond)}/s)`);
  const more = served.length > NAMED ? ` and ${served.length - NAMED} more` : '';
  const queue = waiting === 0 ? '' : `; ${formatCount(waiting, 'node')} wait${waiting === 1 ? 's' : ''}`;
  return `Gives blobs to ${named.join(', ')}${more}${queue}.`;
}
