import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Counter, Gauge, Registry } from 'prom-client';
import { PHASES } from '../../domain/model/condition.ts';
import { MEDIA_CHANGES, reportChanges } from '../../domain/report/snapshot.ts';
import type { BundleReport, StatusReport } from '../../domain/report/status-schema.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { replaceFile } from '../../platform/files/durable-file.ts';
import { openAccess } from '../../platform/files/file-access.ts';
import type { Log } from '../../platform/log.ts';
import { VERSION } from '../../platform/version.ts';
import { REJECTION_CODES } from './rejection-codes.ts';

export interface MetricsFile {
  /**
   * Takes a new report. Never throws; what can't be written is logged once and tried again.
   *
   * @param sentBytes how many bytes the registry has sent since the daemon started
   */
  publish(report: StatusReport, sentBytes: number): void;
  /** Waits until what was taken last is written, without the usual pause. */
  settled(): Promise<void>;
}

export interface MetricsFileOptions {
  readonly path: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Log;
}

/** Shortest time between two writes. node_exporter is asked every 15 s or less often. */
const WRITE_MS = 5_000;

/** Its counters begin at 0 with the daemon. */
export function createMetricsFile({ path, clock, log }: MetricsFileOptions): MetricsFile {
  const metrics = createMetrics();
  let before: { readonly report: StatusReport; readonly at: number; readonly sentBytes: number } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();
  let trouble: string | undefined;
  const report = (text: string | undefined, error?: unknown) => {
    if (text !== undefined && text !== trouble) log.warn({ ...(error !== undefined && { err: error }) }, text);
    trouble = text;
  };
  const write = async () => {
    try {
      await replaceFile({ path, isVolatile: true }, await metrics.registry.metrics());
      const folder = dirname(path);
      const open = openAccess(folder, await stat(folder));
      report(open && `${open.message}, so users other than root could change the metrics (metrics.textfile)`);
    } catch (error) {
      report(`Metrics can't be written (metrics.textfile): ${reasonOf(error)}`, error);
    }
  };
  const writeNow = () => {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(write);
  };
  return {
    publish: (report, sentBytes) => {
      const at = clock.monotonic();
      setGauges(metrics, report, clock.now());
      count(metrics, reportChanges(before?.report, report, before === undefined ? 0 : at - before.at));
      metrics.bytes.inc(sentBytes - (before?.sentBytes ?? 0));
      const isFirst = before === undefined;
      before = { report, at, sentBytes };
      if (isFirst) writeNow();
      else timer ??= setTimeout(writeNow, WRITE_MS).unref();
    },
    settled: async () => {
      if (timer !== undefined) writeNow();
      await writing;
    },
  };
}

type Metrics = ReturnType<typeof declareMetrics>;

/**
 * All metrics with their first values. Counters with labels begin at 0: `increase()` does not see a
 * counter that is first written as 1. A time that is not known is left out, and is not 1970.
 */
function createMetrics(): Metrics {
  const metrics = declareMetrics();
  for (const code of REJECTION_CODES) metrics.failures.inc({ code }, 0);
  for (const event of MEDIA_CHANGES) metrics.media.inc({ event }, 0);
  metrics.lastSuccess.remove();
  metrics.progress.remove();
  return metrics;
}

/** docs/metrics.md describes them. */
function declareMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const gauge = <const Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge<Label>({ name: `stickpin_${name}`, help, labelNames: [...labelNames], registers });
  const counter = <const Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter<Label>({ name: `stickpin_${name}`, help, labelNames: [...labelNames], registers });
  return {
    registry,
    info: gauge('build_info', 'The version of the daemon.', ['version']),
    bundles: gauge('bundles', 'Known bundles by phase.', ['phase']),
    rejected: gauge('rejected_bundles', 'Bundles on plugged media that are not taken.'),
    degraded: gauge('degraded_bundles', 'Bundles with a fault that quick tries did not repair.'),
    releases: gauge('release_info', 'Releases that are not retired, always 1.', RELEASE_LABELS),
    sequences: gauge('release_sequence', 'The sequence of the current release of each stream.', ['name', 'version']),
    adminWaits: gauge('waits_for_admin', 'What only an administrator ends, by its short code.', ['code']),
    needs: gauge('needs_person', 'What ends only when a person does something, by its short code.', ['code']),
    plugged: gauge('media_plugged', 'Sticks that are plugged in.'),
    progress: gauge('preload_progress_ratio', 'How much of the running preload is done, from 0 to 1.'),
    holds: gauge('holds', 'What bundles wait for: holds of preloads and of activations, by reason.', ['reason']),
    images: gauge('images', 'Images of releases that are not retired: wanted, present and pinned.', ['state']),
    runtime: gauge('runtime_reachable', 'Whether the container runtime answers.'),
    soak: gauge('soak_remaining_seconds', 'How long a release must still run to be proven.', ['name', 'version']),
    lastSuccess: gauge(
      'last_success_timestamp_seconds',
      'When a release was ready last: all images present and pinned.',
    ),
    bytes: counter('preload_bytes_total', 'Bytes of blobs that the registry of the daemon sent to the runtime.'),
    seconds: counter('preload_seconds_total', 'Time that preloads took.'),
    failures: counter('verification_failures_total', 'Bundles that were rejected, by the code of the reason.', [
      'code',
    ]),
    media: counter('media_events_total', 'Media that were plugged, removed, or could not be read.', ['event']),
  };
}

function setGauges(metrics: Metrics, report: StatusReport, now: number): void {
  const { bundles, rejected, runtime } = report;
  metrics.info.set({ version: VERSION }, 1);
  for (const { phase } of PHASES) metrics.bundles.set({ phase }, bundles.filter((one) => one.phase === phase).length);
  metrics.rejected.set(rejected.length);
  metrics.degraded.set(bundles.filter(({ degraded }) => degraded !== undefined).length);
  metrics.runtime.set(runtime.reachable ? 1 : 0);
  metrics.plugged.set(report.media.filter(({ kind }) => kind === 'stick').length);
  setReleases(metrics, bundles);
  for (const [metric, entries] of [
    [metrics.needs, report.needsPerson],
    [metrics.adminWaits, report.waitsForAdmin ?? []],
  ] as const) {
    metric.reset();
    for (const { code } of entries.slice(0, MOST_SERIES)) metric.set({ code }, 1);
  }
  setProgress(metrics, report);
  metrics.holds.reset();
  for (const reason of bundles.flatMap(holdsOf)) metrics.holds.inc({ reason });
  const counted = bundles.filter(({ phase }) => phase !== 'retired' && phase !== 'rejected');
  for (const [state, member] of [
    ['wanted', 'total'],
    ['present', 'present'],
    ['pinned', 'pinned'],
  ] as const)
    metrics.images.set(
      { state },
      counted.reduce((sum, { images }) => sum + images[member], 0),
    );
  metrics.soak.reset();
  for (const { name, version, soakEndsAt } of bundles) {
    if (soakEndsAt !== undefined)
      metrics.soak.set({ name, version }, Math.max(0, Math.round((Date.parse(soakEndsAt) - now) / 1000)));
  }
  const readyAt = bundles.flatMap((one) => (one.readyAt === undefined ? [] : [Date.parse(one.readyAt)]));
  if (readyAt.length > 0) metrics.lastSuccess.set(Math.max(...readyAt) / 1000);
}

const RELEASE_LABELS = ['name', 'version', 'phase', 'current'] as const;

/** Each is a series in Prometheus. */
const MOST_SERIES = 100;

/** Current ones first, since alerts compare them. Those without a verified name are left out. */
function setReleases({ releases, sequences }: Metrics, bundles: readonly BundleReport[]): void {
  releases.reset();
  sequences.reset();
  const known = bundles.filter(({ name, phase }) => name !== '' && phase !== 'retired');
  const isCurrent = ({ current }: BundleReport) => current === true;
  const chosen = [...known.filter(isCurrent), ...known.filter((one) => !isCurrent(one)).reverse()];
  for (const { name, version, phase, current = false, sequence } of chosen.slice(0, MOST_SERIES)) {
    releases.set({ name, version, phase, current: String(current) }, 1);
    if (current) sequences.set({ name, version }, sequence);
  }
}

function setProgress({ progress }: Metrics, { operation, progress: bytes }: StatusReport): void {
  const { doneBytes, totalBytes } = bytes;
  if (operation === 'preloading' && totalBytes > 0) progress.set(Math.min(1, doneBytes / totalBytes));
  else progress.remove();
}

/** Codes of what a bundle waits for, each once. */
function holdsOf({ hold, activationHolds = [] }: BundleReport): readonly string[] {
  return [...new Set([...(hold === undefined ? [] : [hold]), ...activationHolds.map(({ code }) => code)])];
}

function count(
  { seconds, failures, media }: Metrics,
  { preloadedMs, rejections, media: mediaChanges }: ReturnType<typeof reportChanges>,
): void {
  seconds.inc(preloadedMs / 1000);
  for (const code of rejections) failures.inc({ code });
  for (const event of mediaChanges) media.inc({ event });
}
