import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';
import { EMPTY_REPORT, type StatusReport } from '../../domain/report/report.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import { VERSION } from '../../platform/version.ts';
import type { ApiBackend } from '../backend.ts';
import {
  type ApiBus,
  BUNDLE,
  BUNDLES_PATH,
  busNameOf,
  MANAGER,
  OBJECT_MANAGER,
  OBJECT_PATH,
  PROPERTIES,
  SIGNALS,
} from '../contract.ts';
import { type ApiObjects, bundleTable, encodeProperties, managerTable, type PropertyTable } from './properties.ts';

/** The objects of a report. @param report undefined while the daemon starts */
export function objectsOf(report: StatusReport | undefined): ApiObjects {
  if (report === undefined) return STARTING;
  const { bundles: reported, progress: transfer, ...rest } = report;
  const bundles = new Map(reported.map(({ bundleId, ...bundle }) => [pathOf(bundleId), { id: bundleId, ...bundle }]));
  const { doneBytes, totalBytes } = transfer;
  const percentage = totalBytes === 0 ? 100 : Math.min(100, Math.floor((100 * doneBytes) / totalBytes));
  const manager = {
    ...rest,
    started: true,
    version: VERSION,
    progress: { percentage, message: report.status, depth: 0 },
    lastError: lastErrorOf(report),
    transfer,
    bundles: [...bundles.keys()],
  };
  return { manager, bundles };
}

/**
 * The report from which objects were made: the inverse of {@link objectsOf}.
 *
 * @returns undefined when a bundle that the manager names is not among `bundles`: it appeared or
 *   disappeared between two answers
 */
export function reportOfObjects({ manager, bundles }: ApiObjects): StatusReport | undefined {
  const listed = manager.bundles.flatMap((path) => bundles.get(path) ?? []);
  if (listed.length !== manager.bundles.length || bundles.size !== listed.length) return undefined;
  const { status, operation, runtime, media, notices, rejected } = manager;
  const { rejectedNames, conditions, unclaimed, streams, windows, stateProblems, hooks, trust } = manager;
  return {
    status,
    operation,
    runtime,
    media,
    bundles: listed.map(({ id, ...bundle }): BundleReport => ({ bundleId: id, ...bundle })),
    notices,
    rejected,
    rejectedNames,
    conditions,
    unclaimed,
    streams,
    windows,
    stateProblems,
    hooks,
    trust,
    wanted: manager.wanted,
    protected: manager.protected,
    progress: manager.transfer,
  };
}

/** `sha256:5f0c…` as `/io/stickpin1/bundle/5f0c…`. */
function pathOf(bundleId: string): string {
  return `${BUNDLES_PATH}/${bundleId.replace(/^sha256:/, '')}`;
}

/** The last error that still applies, or empty. */
function lastErrorOf({ bundles, rejected }: StatusReport): string {
  const faulty = bundles.filter(({ reason }) => reason !== undefined);
  const newest = faulty.findLast(({ reason }) => reason?.code !== 'engine/needs-copy') ?? faulty.at(-1);
  return (rejected.at(-1)?.reason ?? newest?.reason)?.message ?? '';
}

const STARTING: ApiObjects = {
  manager: {
    ...EMPTY_REPORT,
    started: false,
    version: VERSION,
    status: 'Starting',
    operation: 'idle',
    progress: { percentage: 0, message: 'Starting', depth: 0 },
    lastError: '',
    transfer: { doneBytes: 0, totalBytes: 0 },
    runtime: { reachable: false },
    trust: { require: '', threshold: 0, keys: [], revoked: [], problems: [], revocationsUnreadable: false },
  },
  bundles: new Map(),
};

/** The adapters of {@link announceChanges}. */
interface AnnouncementDeps {
  readonly bus: Pick<ApiBus, 'emit'>;
  readonly backend: Pick<ApiBackend, 'report' | 'onReport'>;
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly log: Log;
}

/** Shortest time between two announcements. */
const ANNOUNCE_MS = 250;

/** The announced and the pending state. */
interface Announcer {
  readonly deps: AnnouncementDeps;
  readonly signal: AbortSignal;
  /** The state that was announced last. */
  announced: ApiObjects;
  announcedAt: number;
  /** A newer report that is not announced yet, if any. */
  latest: StatusReport | undefined;
  operation: StatusReport['operation'];
  /** Results of operations that have ended since the last announcement. */
  completed: readonly number[];
}

/**
 * Announces what changes: `PropertiesChanged` of each object, `InterfacesAdded` and
 * `InterfacesRemoved` of bundles, and `Completed` after the matching properties. All changes within
 * {@link ANNOUNCE_MS} are sent together.
 *
 * @returns a function that stops it
 */
export function announceChanges(deps: AnnouncementDeps): Unsubscribe {
  const stop = new AbortController();
  const report = deps.backend.report();
  const announcer: Announcer = {
    deps,
    signal: stop.signal,
    announced: objectsOf(report),
    announcedAt: Number.NEGATIVE_INFINITY,
    latest: undefined,
    operation: report?.operation ?? 'idle',
    completed: [],
  };
  const unsubscribe = deps.backend.onReport((next) => noteReport(next, announcer));
  return () => {
    unsubscribe();
    stop.abort();
  };
}

function noteReport(report: StatusReport, announcer: Announcer): void {
  const isScheduled = announcer.latest !== undefined;
  announcer.latest = report;
  if (announcer.operation !== 'idle' && report.operation === 'idle') {
    const { lastError } = objectsOf(report).manager;
    announcer.completed = [...announcer.completed, lastError === '' ? 0 : 1];
  }
  announcer.operation = report.operation;
  if (isScheduled) return;
  announceInTime(announcer).catch((err: unknown) => {
    if (announcer.signal.aborted) return;
    announcer.deps.log.error({ err }, `Changes could not be announced on D-Bus: ${reasonOf(err)}`);
  });
}

/**
 * Announces after the minimum time since the last announcement, and after this turn of the event
 * loop.
 */
async function announceInTime(announcer: Announcer): Promise<void> {
  const { deps, signal } = announcer;
  const waitMs = announcer.announcedAt + ANNOUNCE_MS - deps.clock.monotonic();
  await deps.clock.sleep(Math.max(0, waitMs), signal);
  const next = objectsOf(announcer.latest);
  const { announced, completed } = announcer;
  announcer.latest = undefined;
  announcer.announced = next;
  announcer.announcedAt = deps.clock.monotonic();
  announcer.completed = [];
  announceBundles(announced, next, deps);
  announceProperties(OBJECT_PATH, managerTable, announced.manager, next.manager, deps);
  for (const result of completed) announceCompleted(result, deps);
}

function announceBundles(before: ApiObjects, after: ApiObjects, deps: AnnouncementDeps): void {
  for (const [path, values] of after.bundles) {
    const known = before.bundles.get(path);
    if (known !== undefined) announceProperties(path, bundleTable, known, values, deps);
    else {
      const interfaces = { [BUNDLE]: encodeProperties(bundleTable, values) };
      emit(OBJECT_MANAGER, 'InterfacesAdded', 'oa{sa{sv}}', [path, interfaces], deps);
    }
  }
  for (const path of before.bundles.keys()) {
    if (!after.bundles.has(path)) emit(OBJECT_MANAGER, 'InterfacesRemoved', 'oas', [path, [BUNDLE]], deps);
  }
}

function announceProperties(
  path: string,
  table: PropertyTable,
  before: object,
  after: object,
  { bus }: AnnouncementDeps,
): void {
  const changed = table.fields.map(([key]) => key).filter((key) => textOf(before, key) !== textOf(after, key));
  if (changed.length === 0) return;
  const byName = changed.filter((key) => table.announcements.has(key) || textOf(after, key) === undefined);
  const byValue = table.fields.filter(([key]) => changed.includes(key) && !byName.includes(key));
  bus.emit({
    path,
    interface: PROPERTIES,
    member: 'PropertiesChanged',
    signature: 'sa{sv}as',
    body: [table.interface, encodeProperties({ ...table, fields: byValue }, after), byName.map(busNameOf)],
  });
}

function announceCompleted(result: number, { bus }: AnnouncementDeps): void {
  const { completed } = SIGNALS;
  bus.emit({
    path: OBJECT_PATH,
    interface: MANAGER,
    member: busNameOf('completed'),
    signature: completed.args.result.signature,
    body: [completed.args.result.encode(result)],
  });
}

function emit(
  iface: string,
  member: string,
  signature: string,
  body: readonly unknown[],
  { bus }: AnnouncementDeps,
): void {
  bus.emit({ path: OBJECT_PATH, interface: iface, member, signature, body });
}

/** A property in a form that can be compared. Undefined when it is absent. */
function textOf(values: object, key: string): string | undefined {
  return JSON.stringify(Reflect.get(values, key));
}
