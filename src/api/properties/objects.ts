import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';
import { EMPTY_REPORT, type StatusReport } from '../../domain/report/report.ts';
import { VERSION } from '../../platform/version.ts';
import { BUNDLES_PATH } from '../contract.ts';
import type { BundleValues } from './bundle-properties.ts';
import type { ManagerValues } from './manager-properties.ts';

/** The values of all properties of all objects. */
export interface ApiObjects {
  readonly manager: ManagerValues;
  /** By the path of the object, in the order in which they are shown. */
  readonly bundles: ReadonlyMap<string, BundleValues>;
}

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
