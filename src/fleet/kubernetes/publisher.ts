import { isDeepStrictEqual } from 'node:util';
import { formatEndpoint } from '../../domain/settings/addresses.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { Wake } from '../../platform/async/wake.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { clip, oneLine, sentence } from '../../platform/plain-text.ts';
import { eventsOf, type NodeEvent, type Reported, reportedAfter } from '../publish/events.ts';
import {
  type Health,
  healthOf,
  labelsOf,
  nodeStatusOf,
  publishedPauses,
  publishedStatus,
  SERVES_ANNOTATION,
  STATUS_ANNOTATION,
} from '../publish/node-status.ts';
import { type OwnReport, type OwnServes, parseServes, servesAnnotation } from '../publish/own-report.ts';
import { Trouble, WarnOnce } from '../trouble.ts';
import { backoffMs, isKubernetesError, type KubernetesApi } from './api.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';
import type { OwnFields, OwnNode } from './objects.ts';
import {
  applyFields,
  createEvent,
  deleteHealth,
  foreignLabels,
  getNode,
  hasFields,
  hasHealth,
  type PublishedMark,
  patchHealth,
  removeForeignLabels,
  writtenStatus,
} from './own-node.ts';

interface PublisherOptions {
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
/** Characters of their names in a line. */
const SHOWN_LABELS = 200;

/** `fields`: undefined while unknown; then they stay. */
interface Wanted {
  readonly fields: OwnFields | undefined;
  readonly health: Health;
}

/**
 * Writes the own Node at most once a minute, and only differences from it: nothing after a restart,
 * and nothing while nothing changes.
 */
export class Publisher {
  private readonly wake: Wake;
  /** What was written last, as far as this process knows. */
  private written: Wanted | undefined;
  private reported: Reported | undefined;
  private queue: { readonly event: NodeEvent; readonly at: number }[] = [];
  /** Monotonic milliseconds. */
  private writtenAt: number | undefined;
  private upAt: number;
  /** What was refused. */
  private readonly refused: Trouble;
  /** Temporary failures, logged when they last. */
  private readonly failing: Trouble;
  /** What others write into the own Node. */
  private readonly contested: WarnOnce;

  constructor(private readonly options: PublisherOptions) {
    const { clock, log } = options;
    this.upAt = clock.monotonic();
    this.wake = new Wake(clock);
    this.refused = new Trouble(log);
    this.failing = new Trouble(log, clock);
    this.contested = new WarnOnce(log, clock);
  }

  /** An option gives another value. */
  changed(): void {
    this.collectEvents();
    this.wake.kick();
  }

  /** Writes until `signal` aborts, then resolves. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { cluster, clock, random } = this.options;
    const unsubscribe = cluster.onChange(() => this.changed());
    let failures = 0;
    while (!signal.aborted) {
      try {
        const waitMs = await this.pass(signal);
        failures = 0;
        if (waitMs > 0) await this.wake.wait(waitMs, signal);
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        // Failures to read are logged with the cluster.
        if (!isKubernetesError(error)) this.logFailure(error);
        await clock.sleep(backoffMs(failures, error, random()), signal).catch(() => undefined);
      }
    }
    unsubscribe();
  }

  /** @returns the longest pause, if nothing changes */
  private async pass(signal: AbortSignal): Promise<number> {
    const { clock, isDaemonUp, report } = this.options;
    const now = clock.monotonic();
    const isReporting = isDaemonUp() && report() !== undefined;
    if (isReporting) this.upAt = now;
    const silentInMs = this.upAt + SILENT_MS - now;
    const wanted = this.wanted(silentInMs <= 0);
    if (wanted === undefined || (this.isWritten(wanted) && this.queue.length === 0)) {
      return isReporting || silentInMs <= 0 ? LONGEST_SLEEP_MS : silentInMs;
    }
    const mayWriteInMs = (this.writtenAt ?? Number.NEGATIVE_INFINITY) + LEAST_BETWEEN_MS - now;
    // Changes until then are written together.
    if (mayWriteInMs > 0) await clock.sleep(mayWriteInMs, signal);
    else await this.write(wanted, signal);
    return 0;
  }

  /** Undefined while it is unknown whether the daemon is silent. */
  private wanted(isSilent: boolean): Wanted | undefined {
    const now = this.options.report();
    const offered = this.options.serves();
    // A restart must not remove what is served for a minute: others would leave this node.
    if (now === undefined || offered === 'unknown') {
      return isSilent ? { fields: undefined, health: healthOf(undefined) } : undefined;
    }
    const shown = { ...now, pauses: publishedPauses(now) };
    const annotations = {
      ...(offered !== undefined && { [SERVES_ANNOTATION]: servesAnnotation(offered) }),
      [STATUS_ANNOTATION]: JSON.stringify(publishedStatus(nodeStatusOf(shown))),
    };
    return { fields: { annotations, labels: labelsOf(now) }, health: healthOf(isSilent ? undefined : now) };
  }

  /** The last write and the watch of the own Node say it: nothing is requested. */
  private isWritten(wanted: Wanted): boolean {
    if (!isDeepStrictEqual(this.written, wanted)) return false;
    const seen = this.options.cluster.ownFields();
    if (seen === undefined || wanted.fields === undefined) return true;
    const { annotations, labels } = wanted.fields;
    const isPresent = ([key, value]: [string, string]) => (seen.annotations[key] ?? seen.labels[key]) === value;
    const all = [...Object.entries(annotations), ...Object.entries(labels)];
    return all.every(isPresent) && foreignLabels(seen.labels, labels).length === 0;
  }

  /** Each part is tried, even if another is refused. @throws KubernetesError */
  private async write({ fields, health }: Wanted, signal: AbortSignal): Promise<void> {
    const { api, cluster, clock, mark } = this.options;
    const node = await getNode(api, cluster.self(), signal);
    this.learnReported(node);
    await mark.set(node.metadata.name, signal);
    const isFieldsDue = fields !== undefined && !hasFields(node, fields);
    const isHealthDue = !hasHealth(node, health);
    if (isFieldsDue || isHealthDue || this.queue.length > 0) this.writtenAt = clock.monotonic();
    const results = await Promise.allSettled([
      isFieldsDue ? this.writeFields(node, fields, signal) : undefined,
      isHealthDue ? patchHealth(api, node, health, clock.now(), signal) : undefined,
      this.sendEvents(node, signal),
    ]);
    const failed: unknown[] = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    signal.throwIfAborted();
    if (failed.length > 0) throw this.worstOf(failed);
    this.written = { fields, health };
    const [, , events] = results;
    if (events.status === 'fulfilled' && events.value) {
      for (const trouble of [this.refused, this.failing]) {
        trouble.end(`The own Node ${node.metadata.name} takes everything again`);
      }
    }
  }

  private async writeFields(node: OwnNode, fields: OwnFields, signal: AbortSignal): Promise<void> {
    const { api } = this.options;
    const { name, annotations = {}, labels = {} } = node.metadata;
    const served = this.written?.fields?.annotations[SERVES_ANNOTATION];
    const other = annotations?.[SERVES_ANNOTATION];
    if (served !== undefined && other !== undefined && other !== served) {
      const { endpoint, refused } = parseServes(other) ?? {};
      const where = endpoint === undefined ? (refused ?? 'another text') : formatEndpoint(endpoint);
      const text = `Something else wrote ${SERVES_ANNOTATION} of the own Node ${name}: ${where}. Two machines may have this name: give one of them another one`;
      this.contested.warn(name, 'serves', { node: name }, text);
    }
    const foreign = foreignLabels(labels ?? {}, fields.labels);
    if (foreign.length === 0) return applyFields(api, node, fields, signal);
    const shown = clip(oneLine(foreign.join(', ')), SHOWN_LABELS);
    const text = `Something else set labels of releases of the own Node ${name}, which are removed: ${shown}`;
    this.contested.warn(name, 'labels', { node: name }, text);
    await removeForeignLabels(api, node, fields, signal);
  }

  /** Logs all failures. @returns the one with the longest pause */
  private worstOf(failed: readonly unknown[]): unknown {
    for (const error of failed) this.logFailure(error);
    const pauseMs = (error: unknown) => (isKubernetesError(error) ? (error.retryAfterMs ?? 0) : 0);
    return [...failed].sort((a, b) => pauseMs(b) - pauseMs(a))[0];
  }

  /** After a start the Node holds the last report. */
  private learnReported(node: OwnNode): void {
    if (this.reported !== undefined) return;
    this.reported = { releases: writtenStatus(node)?.releases, troubleIds: undefined };
    this.collectEvents();
  }

  private collectEvents(): void {
    const report = this.options.report();
    if (this.reported === undefined || report === undefined) return;
    const at = this.options.clock.now();
    this.queue.push(...eventsOf(this.reported, report).map((event) => ({ event, at })));
    this.queue.splice(0, this.queue.length - MOST_EVENTS);
    this.reported = reportedAfter(report);
  }

  /** @returns false when the API refuses events for good: then they are dropped */
  private async sendEvents(node: OwnNode, signal: AbortSignal): Promise<boolean> {
    let isTaken = true;
    for (let next = this.queue[0]; next !== undefined; next = this.queue[0]) {
      try {
        await createEvent(this.options.api, node, next.event, next.at, signal);
      } catch (error) {
        if (!isKubernetesError(error, 'kubernetes/forbidden', 'kubernetes/refused')) throw error;
        isTaken = false;
        this.logFailure(error);
      }
      this.queue = this.queue.filter((queued) => queued !== next);
    }
    return isTaken;
  }

  /** A missing Node is logged with the cluster. */
  private logFailure(error: unknown): void {
    if (isKubernetesError(error, 'kubernetes/kubeconfig', 'kubernetes/not-found')) return;
    const self = this.options.cluster.self();
    const text = `The own Node ${self} does not take everything that stickpin tells: ${sentence(reasonOf(error))} It is tried again.`;
    const trouble = isKubernetesError(error) && error.disposition === 'retry' ? this.failing : this.refused;
    trouble.begin(text, error);
  }
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
