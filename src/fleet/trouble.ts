import type { NodeStatus, Peer } from '../domain/fleet/node-status.ts';
import type { BundleId } from '../domain/model/digest.ts';
import { type Endpoint, formatEndpoint } from '../domain/settings/value-types.ts';
import { AppError, type Disposition } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log, LogFields } from '../platform/log.ts';
import { formatBytes, formatCount } from '../platform/sizes.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { ServedNode } from './serve/served-nodes.ts';

/** Something that is wrong for a while. */
export interface Trouble {
  /** The sentence, while it lasts. */
  current(): string | undefined;
  /**
   * It is so now. Logged once, when it begins or has lasted: tries that fail in another way change
   * what `current` says.
   *
   * @returns whether that changed
   */
  begin(text: string, error?: unknown): boolean;
  /** It is over; logged with `text` if its begin was. @returns whether it had begun */
  end(text: string): boolean;
}

/**
 * What is awaited at each start is logged when it is still so after this time, in milliseconds: the
 * daemon, the API server and the Node come up meanwhile.
 */
export const USUAL_MS = 30_000;

/**
 * A {@link Trouble} that has not begun.
 *
 * @param quiet how long it may last before a further `begin` logs it; default: it is logged at once
 */
export function createTrouble(log: Log, quiet?: { readonly clock: Clock; readonly forMs: number }): Trouble {
  let current: string | undefined;
  let sinceMs = 0;
  let isTold = false;
  return {
    current: () => current,
    begin: (text, error) => {
      const before = current;
      current = text;
      const nowMs = quiet?.clock.monotonic() ?? 0;
      if (before === undefined) sinceMs = nowMs;
      if (!isTold && nowMs - sinceMs >= (quiet?.forMs ?? 0)) {
        isTold = true;
        log.warn({ ...(error !== undefined && { err: error }) }, text);
      }
      return before !== text;
    },
    end: (text) => {
      if (current === undefined) return false;
      current = undefined;
      if (isTold) log.info({}, text);
      isTold = false;
      return true;
    },
  };
}

/**
 * A node of the cluster, as the metadata of its Node object tells. Whether its kubelet lives is not
 * among that.
 */
export interface ClusterNode {
  readonly name: string;
  /** Where it gives bundles to others; absent when it does not. */
  readonly endpoint?: Endpoint;
  /** What it gives. */
  readonly serves: readonly BundleId[];
  /** What it told last about its releases; absent when it told nothing that can be read. */
  readonly status?: NodeStatus;
}

/** The cluster as the Kubernetes API shows it. */
export interface Cluster {
  /** The name of the own Node. */
  self(): string;
  /** The first `InternalIP` of the own Node; undefined while that is not known. */
  address(): string | undefined;
  /**
   * All nodes by name, the own one included. While the API server does not answer: those that were
   * known last. Empty until it answered once.
   */
  nodes(): readonly ClusterNode[];
  /** Why this is not everything, or not up to date, as one sentence; undefined when it is. */
  trouble(): string | undefined;
  /** Calls `listener` after any of the above has changed. */
  onChange(listener: () => void): Unsubscribe;
  /**
   * Follows the cluster until `signal` aborts, then resolves. Never throws: what is wrong is
   * `trouble()`, and one line in the log when it begins and one when it ends.
   */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Codes of the fleet process.
 *
 * - `fleet/identity`: the kubelet's certificate, its key or its authorities can't be used;
 * - `fleet/refused`: the other end did not prove that it is a node of this cluster;
 * - `fleet/unreachable`: the other end does not answer, or not in time;
 * - `fleet/answer`: it answers with something that is no answer;
 * - `fleet/listen`: an address or socket can't be listened on.
 */
type FleetErrorCode = 'fleet/identity' | 'fleet/refused' | 'fleet/unreachable' | 'fleet/answer' | 'fleet/listen';

/** An error of the fleet process. `message` says what, which, why, and what to do next. */
export function fleetError(
  code: FleetErrorCode,
  message: string,
  { disposition = 'retry', cause }: { readonly disposition?: Disposition; readonly cause?: unknown } = {},
): AppError<FleetErrorCode> {
  return new AppError({ code, message, disposition, cause });
}

/** Says the same thing about the same peer once, however often it happens. */
export interface TellOnce {
  /** Logs a warning, unless the same was said about `peer` within the last hour. */
  warn(peer: string, cause: string, fields: LogFields, message: string): void;
  /** The trouble with `peer` is over: the next time it is said again. */
  over(peer: string): void;
}

/** What still lasts is said again after this time. */
const AGAIN_MS = 60 * 60_000;

/** Peers and causes that are remembered. Strangers can make up any number of them. */
const MOST_REMEMBERED = 1_000;

/** Makes a {@link TellOnce} that has said nothing. */
export function createTellOnce(log: Log, clock: Clock): TellOnce {
  const told = new Map<string, Map<string, number>>();
  return {
    warn: (peer, cause, fields, message) => {
      const causes = told.get(peer) ?? new Map<string, number>();
      const before = causes.get(cause);
      if (before !== undefined && clock.monotonic() - before < AGAIN_MS) return;
      const [oldest] = told.keys();
      if (told.size >= MOST_REMEMBERED && oldest !== undefined) told.delete(oldest);
      causes.set(cause, clock.monotonic());
      told.set(peer, causes);
      log.warn(fields, message);
    },
    over: (peer) => {
      told.delete(peer);
    },
  };
}

/** What the status of the fleet process is made of. */
interface FleetStatus {
  readonly served: readonly ServedNode[];
  readonly waiting: number;
  /** Where other nodes reach this one; undefined while they don't. */
  readonly endpoint: Endpoint | undefined;
  /** How many bundles this node offers. */
  readonly offered: number;
  readonly peers: readonly Pick<Peer, 'trouble'>[];
  readonly apiTrouble: string | undefined;
}

/** Nodes that are named. */
const NAMED = 4;

/** `STATUS=` of the fleet process: whom it serves, at what rate, and whom it reaches. */
export function fleetStatusLine(status: FleetStatus): string {
  const { peers, apiTrouble } = status;
  const answering = peers.filter(({ trouble }) => trouble === undefined).length;
  const reached =
    peers.length === 0 ? 'No other node is known.' : `${answering} of ${formatCount(peers.length, 'peer')} answer.`;
  const api = apiTrouble === undefined ? '' : ` Kubernetes API: ${apiTrouble}`;
  return `${serving(status)} ${reached}${api}`;
}

function serving({ served, waiting, endpoint, offered }: FleetStatus): string {
  if (endpoint === undefined) return 'Gives nothing to other nodes.';
  if (served.length === 0) return `Offers ${formatCount(offered, 'bundle')} on ${formatEndpoint(endpoint)}.`;
  const named = served.slice(0, NAMED).map(({ name, bytesPerSecond }) => `${name} (${formatBytes(bytesPerSecond)}/s)`);
  const more = served.length > NAMED ? ` and ${served.length - NAMED} more` : '';
  const queue = waiting === 0 ? '' : `; ${formatCount(waiting, 'node')} wait${waiting === 1 ? 's' : ''}`;
  return `Gives blobs to ${named.join(', ')}${more}${queue}.`;
}
