import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';
import { eventsOf, type NodeEvent, type Reported, reportedAfter } from '../publish/events.ts';
import {
  type Health,
  healthOf,
  labelsOf,
  nodeStatusOf,
  publishedStatus,
  SERVES_ANNOTATION,
  STATUS_ANNOTATION,
} from '../publish/node-status.ts';
import { type OwnReport, type OwnServes, servesAnnotation } from '../publish/own-report.ts';
import { Trouble, USUAL_MS } from '../trouble.ts';
import { backoffMs, isKubernetesError, type KubernetesApi } from './api.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';
import type { OwnFields, OwnNode } from './objects.ts';
import {
  applyFields,
  createEvent,
  deleteHealth,
  getNode,
  hasFields,
  hasHealth,
  type PublishedMark,
  patchHealth,
  writtenStatus,
} from './own-node.ts';

export interface Publisher {
  /** An option gives another value. */
  changed(): void;
  /** Writes until `signal` aborts, then resolves. Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

export interface PublisherOptions {
  readonly api: KubernetesApi;
  readonly cluster: Pick<KubernetesCluster, 'self' | 'ownFields' | 'onChange'>;
  readonly report: () => OwnReport | undefined;
  readonly isDaemonUp: () => boolean;
  /** Undefined while it gives nothing. */
  readonly serves: () => OwnServes | undefined | 'unknown';
  readonly mark: Pick<PublishedMark, 'set'>;
  readonly clock: Clock;
  /** 0 to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
}

/** Other programs watch Nodes, and all kubelets share the budget of the API server. */
const LEAST_BETWEEN_MS = 60_000;
/** A restart of the daemon is no silence. */
const SILENT_MS = 90_000;
const LONGEST_SLEEP_MS = 3_600_000;
const MOST_EVENTS = 100;

/** `fields`: undefined while unknown; then they stay. */
interface Wanted {
  readonly fields: OwnFields | undefined;
  readonly health: Health;
}

interface State extends PublisherOptions {
  /** Its abort ends the sleep of `run`. */
  wake: AbortController;
  /** As far as this process knows. */
  said: Wanted | undefined;
  reported: Reported | undefined;
  queue: { readonly event: NodeEvent; readonly at: number }[];
  /** Monotonic milliseconds. */
  writtenAt: number | undefined;
  upAt: number;
  /** What was refused. */
  readonly refused: Trouble;
  /** Temporary failures, logged when they last. */
  readonly failing: Trouble;
}

/**
 * Writes at most once a minute, and only differences from the Node: nothing after a restart, and
 * nothing while nothing changes.
 */
export function createPublisher(options: PublisherOptions): Publisher {
  const state: State = {
    ...options,
    wake: new AbortController(),
    said: undefined,
    reported: undefined,
    queue: [],
    writtenAt: undefined,
    upAt: options.clock.monotonic(),
    refused: new Trouble(options.log),
    failing: new Trouble(options.log, { clock: options.clock, forMs: USUAL_MS }),
  };
  const changed = () => {
    collectEvents(state);
    state.wake.abort();
  };
  return {
    changed,
    run: async (signal) => {
      const unsubscribe = options.cluster.onChange(changed);
      await run(state, signal);
      unsubscribe();
    },
  };
}

/**
 * Removes annotations, labels and the condition, as before a removal of stickpin. A Node that is
 * gone has none.
 *
 * @throws KubernetesError
 */
export async function withdraw(api: KubernetesApi, hostname: string, signal: AbortSignal): Promise<void> {
  const { nodeName: name = hostname } = await api.credentials(signal);
  try {
    await applyFields(api, await getNode(api, name, signal), { annotations: {}, labels: {} }, signal);
    await deleteHealth(api, name, 'StickpinHealthy', signal);
  } catch (error) {
    if (!isKubernetesError(error, 'kubernetes/not-found', 'kubernetes/conflict')) throw error;
  }
}

async function run(state: State, signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    state.wake = new AbortController();
    try {
      const waitMs = await turn(state, signal);
      failures = 0;
      await sleepUntilChanged(state, waitMs, signal);
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      // Failures to read are logged with the cluster.
      if (!isKubernetesError(error)) logFailure(state, error);
      await state.clock.sleep(backoffMs(failures, error, state.random()), signal).catch(() => undefined);
    }
  }
}

/** @returns the longest pause, if nothing changes */
async function turn(state: State, signal: AbortSignal): Promise<number> {
  const now = state.clock.monotonic();
  const isReporting = state.isDaemonUp() && state.report() !== undefined;
  if (isReporting) state.upAt = now;
  const silentInMs = state.upAt + SILENT_MS - now;
  const wanted = wantedOf(state, silentInMs <= 0);
  if (wanted === undefined || (isSaid(state, wanted) && state.queue.length === 0)) {
    return isReporting || silentInMs <= 0 ? LONGEST_SLEEP_MS : silentInMs;
  }
  const mayWriteInMs = (state.writtenAt ?? Number.NEGATIVE_INFINITY) + LEAST_BETWEEN_MS - now;
  if (mayWriteInMs > 0) {
    // Changes until then are written together.
    await state.clock.sleep(mayWriteInMs, signal);
    return 0;
  }
  await write(state, wanted, signal);
  return 0;
}

/** Undefined while it is unknown whether the daemon is silent. */
function wantedOf({ report, serves }: State, isSilent: boolean): Wanted | undefined {
  const now = report();
  if (now === undefined) return isSilent ? { fields: undefined, health: healthOf(undefined) } : undefined;
  const offered = serves();
  // A restart must not remove it for a minute: others would leave this node.
  if (offered === 'unknown') return isSilent ? { fields: undefined, health: healthOf(undefined) } : undefined;
  const annotations = {
    ...(offered !== undefined && { [SERVES_ANNOTATION]: servesAnnotation(offered) }),
    [STATUS_ANNOTATION]: JSON.stringify(publishedStatus(nodeStatusOf(now))),
  };
  return { fields: { annotations, labels: labelsOf(now) }, health: healthOf(isSilent ? undefined : now) };
}

/** Without a request: by the last write and the watch of the own Node. */
function isSaid({ said, cluster }: State, wanted: Wanted): boolean {
  if (!isDeepStrictEqual(said, wanted)) return false;
  const seen = cluster.ownFields();
  if (seen === undefined || wanted.fields === undefined) return true;
  const { annotations, labels } = wanted.fields;
  const isThere = ([key, value]: [string, string]) => (seen.annotations[key] ?? seen.labels[key]) === value;
  return [...Object.entries(annotations), ...Object.entries(labels)].every(isThere);
}

/** Each part is tried, even if another is refused. @throws KubernetesError */
async function write(state: State, { fields, health }: Wanted, signal: AbortSignal): Promise<void> {
  const { api, cluster, clock } = state;
  const node = await getNode(api, cluster.self(), signal);
  learnReported(state, node);
  await state.mark.set(node.metadata.name, signal);
  const isFieldsDue = fields !== undefined && !hasFields(node, fields);
  const isHealthDue = !hasHealth(node, health);
  const isDue = isFieldsDue || isHealthDue || state.queue.length > 0;
  if (isDue) state.writtenAt = clock.monotonic();
  const results = await Promise.allSettled([
    isFieldsDue ? applyFields(api, node, fields, signal) : undefined,
    isHealthDue ? patchHealth(api, node, health, clock.now(), signal) : undefined,
    sendEvents(state, node, signal),
  ]);
  const failed: unknown[] = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  signal.throwIfAborted();
  if (failed.length > 0) throw worstOf(state, failed);
  state.said = { fields, health };
  const [, , events] = results;
  if (events.status === 'fulfilled' && events.value) {
    for (const trouble of [state.refused, state.failing]) {
      trouble.end(`The own Node ${node.metadata.name} takes everything again`);
    }
  }
}

/** Logs all failures. @returns the one with the longest pause */
function worstOf(state: State, failed: readonly unknown[]): unknown {
  for (const error of failed) logFailure(state, error);
  const pauseMs = (error: unknown) => (isKubernetesError(error) ? (error.retryAfterMs ?? 0) : 0);
  return [...failed].sort((a, b) => pauseMs(b) - pauseMs(a))[0];
}

/** After a start the Node holds the last report. */
function learnReported(state: State, node: OwnNode): void {
  if (state.reported !== undefined) return;
  state.reported = { releases: writtenStatus(node)?.releases, troubleIds: undefined };
  collectEvents(state);
}

function collectEvents(state: State): void {
  const report = state.report();
  if (state.reported === undefined || report === undefined) return;
  const at = state.clock.now();
  state.queue.push(...eventsOf(state.reported, report).map((event) => ({ event, at })));
  state.queue.splice(0, state.queue.length - MOST_EVENTS);
  state.reported = reportedAfter(report);
}

/** @returns false when the API refuses events for good: then they are dropped */
async function sendEvents(state: State, node: OwnNode, signal: AbortSignal): Promise<boolean> {
  let isTaken = true;
  for (let next = state.queue[0]; next !== undefined; next = state.queue[0]) {
    try {
      await createEvent(state.api, node, next.event, next.at, signal);
    } catch (error) {
      if (!isKubernetesError(error, 'kubernetes/forbidden', 'kubernetes/refused')) throw error;
      isTaken = false;
      logFailure(state, error);
    }
    state.queue = state.queue.filter((queued) => queued !== next);
  }
  return isTaken;
}

/** A missing Node is logged with the cluster. */
function logFailure({ refused, failing, cluster }: State, error: unknown): void {
  if (isKubernetesError(error, 'kubernetes/kubeconfig', 'kubernetes/not-found')) return;
  const text = `The own Node ${cluster.self()} does not take everything that stickpin tells: ${sentence(reasonOf(error))} It is tried again.`;
  const trouble = isKubernetesError(error) && error.disposition === 'retry' ? failing : refused;
  trouble.begin(text, error);
}

async function sleepUntilChanged(state: State, ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return;
  const { signal: either, release } = linkSignals([signal, state.wake.signal]);
  await state.clock.sleep(ms, either).catch(() => undefined);
  release();
}
