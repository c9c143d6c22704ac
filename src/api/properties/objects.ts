import { EMPTY_REPORT, type StatusReport, statusReport } from '../../domain/report/status-schema.ts';
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

/** @param report undefined while the daemon starts */
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
  const values: Partial<StatusReport> = {
    ...manager,
    bundles: listed.map(({ id, ...bundle }) => ({ bundleId: id, ...bundle })),
    progress: manager.transfer,
  };
  // The members have the order of the document; members that are only properties are left out.
  const members = Object.keys(statusReport.entries).map((key) => [key, Reflect.get(values, key)]);
  return Object.fromEntries(members) as StatusReport;
}

/** `sha256:5f0c…` as `/io/stickpin1/bundle/5f0c…`. */
function pathOf(bundleId: string): string {
  return `${BUNDLES_PATH}/${bundleId.replace(/^sha256:/, '')}`;
}

function lastErrorOf({ bundles, rejected }: StatusReport): string {
  const faulty = bundles.filter(({ reason }) => reason !== undefined);
  const newest = faulty.findLast(({ reason }) => reason?.code !== 'engine/needs-copy') ?? faulty.at(-1);
  return (rejected.at(-1)?.reason ?? newest?.reason)?.message ?? '';
}

const STARTING: ApiObjects = {
  manager: {
    ...EMPTY_REPORT,
    bundles: [],
    started: false,
    version: VERSION,
    status: 'WAIT: stickpin is starting.',
    advice: { action: 'wait', words: 'WAIT', text: 'stickpin is starting.' },
    operation: 'idle',
    progress: { percentage: 0, message: 'Starting', depth: 0 },
    lastError: '',
    transfer: { doneBytes: 0, totalBytes: 0 },
    runtime: { reachable: false },
    // The cast is safe, since clients read nothing more while `started` is false.
    trust: {
      require: '' as string as 'both',
      threshold: 0,
      keys: [],
      revoked: [],
      problems: [],
      revocationsUnreadable: false,
    },
  },
  bundles: new Map(),
};

/** Shortest time between two announcements. */
const ANNOUNCE_MS = 250;

/**
 * Announces what changes: `PropertiesChanged` of each object, `InterfacesAdded` and
 * `InterfacesRemoved` of bundles, and `Completed` after the matching properties. All changes within
 * {@link ANNOUNCE_MS} are sent together.
 */
export class ChangeAnnouncer {
  private readonly end = new AbortController();
  private readonly unsubscribe: Unsubscribe;
  private announced: ApiObjects;
  private announcedAt = Number.NEGATIVE_INFINITY;
  /** A newer report that is not announced yet, if any. */
  private latest: StatusReport | undefined;
  private operation: StatusReport['operation'];
  /** The number of the newest event that was announced. */
  private newestEvent: number;
  /** Results of operations that have ended since the last announcement. */
  private completed: number[] = [];

  constructor(
    private readonly bus: Pick<ApiBus, 'emit'>,
    private readonly backend: Pick<ApiBackend, 'report' | 'onReport' | 'newestEvent'>,
    private readonly clock: Pick<Clock, 'monotonic' | 'sleep'>,
    private readonly log: Log,
  ) {
    const report = backend.report();
    this.announced = objectsOf(report);
    this.operation = report?.operation ?? 'idle';
    this.newestEvent = backend.newestEvent();
    this.unsubscribe = backend.onReport((next) => this.note(next));
  }

  stop(): void {
    this.unsubscribe();
    this.end.abort();
  }

  private note(report: StatusReport): void {
    const isScheduled = this.latest !== undefined;
    this.latest = report;
    if (this.operation !== 'idle' && report.operation === 'idle') {
      this.completed.push(objectsOf(report).manager.lastError === '' ? 0 : 1);
    }
    this.operation = report.operation;
    if (isScheduled) return;
    this.announceInTime().catch((err: unknown) => {
      if (this.end.signal.aborted) return;
      this.log.error({ err }, `Changes could not be announced on D-Bus: ${reasonOf(err)}`);
    });
  }

  /** Waits until the least time between announcements and this turn of the event loop are over. */
  private async announceInTime(): Promise<void> {
    const waitMs = this.announcedAt + ANNOUNCE_MS - this.clock.monotonic();
    await this.clock.sleep(Math.max(0, waitMs), this.end.signal);
    const next = objectsOf(this.latest);
    const { announced, completed } = this;
    this.latest = undefined;
    this.announced = next;
    this.announcedAt = this.clock.monotonic();
    this.completed = [];
    this.announceBundles(announced, next);
    this.announceProperties(OBJECT_PATH, managerTable, announced.manager, next.manager);
    for (const result of completed) {
      const type = SIGNALS.completed.args.result;
      this.emit(MANAGER, busNameOf('completed'), type.signature, [type.encode(result)]);
    }
    const newestEvent = this.backend.newestEvent();
    if (newestEvent !== this.newestEvent) this.emit(MANAGER, busNameOf('historyChanged'), '', []);
    this.newestEvent = newestEvent;
  }

  private announceBundles(before: ApiObjects, after: ApiObjects): void {
    for (const [path, values] of after.bundles) {
      const known = before.bundles.get(path);
      if (known !== undefined) this.announceProperties(path, bundleTable, known, values);
      else {
        const interfaces = { [BUNDLE]: encodeProperties(bundleTable, values) };
        this.emit(OBJECT_MANAGER, 'InterfacesAdded', 'oa{sa{sv}}', [path, interfaces]);
      }
    }
    for (const path of before.bundles.keys()) {
      if (!after.bundles.has(path)) this.emit(OBJECT_MANAGER, 'InterfacesRemoved', 'oas', [path, [BUNDLE]]);
    }
  }

  private announceProperties(path: string, table: PropertyTable, before: object, after: object): void {
    const changed = table.fields.map(([key]) => key).filter((key) => textOf(before, key) !== textOf(after, key));
    if (changed.length === 0) return;
    const byName = changed.filter((key) => table.announcements.has(key) || textOf(after, key) === undefined);
    const byValue = table.fields.filter(([key]) => changed.includes(key) && !byName.includes(key));
    const values = encodeProperties({ ...table, fields: byValue }, after);
    this.emit(PROPERTIES, 'PropertiesChanged', 'sa{sv}as', [table.interface, values, byName.map(busNameOf)], path);
  }

  private emit(iface: string, member: string, signature: string, body: readonly unknown[], path = OBJECT_PATH): void {
    this.bus.emit({ path, interface: iface, member, signature, body });
  }
}

/** A property in a form that can be compared. Returns undefined when it is absent. */
function textOf(values: object, key: string): string | undefined {
  return JSON.stringify(Reflect.get(values, key));
}
