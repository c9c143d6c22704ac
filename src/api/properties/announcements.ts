import type { StatusReport } from '../../domain/report/report.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import { type ApiBus, OBJECT_MANAGER, PROPERTIES } from '../api-bus.ts';
import type { ApiBackend } from '../backend.ts';
import { busNameOf } from '../bus-name.ts';
import { BUNDLE, MANAGER, OBJECT_PATH, SIGNALS } from '../contract.ts';
import { type ApiObjects, objectsOf } from './objects.ts';
import { bundleTable, encodeProperties, managerTable, type PropertyTable } from './property-tables.ts';

/** The adapters of {@link announceChanges}. */
export interface AnnouncementDeps {
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
