import { NODE_STATUS_BYTES, type NodeStatus, type ReleaseStatus } from '../../domain/fleet/node-status.ts';
import { hexOf } from '../../domain/model/digest.ts';
import type { Phase } from '../../domain/model/phase.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

/** They leave most of the room for releases. */
const MOST_WANTS = 3;

/** A percentage is published in these steps, so that a preload writes ten times. */
const PERCENT_STEP = 10;

/**
 * What this node tells the others: the current releases first, then the newest ones, and as many as
 * fit into 2 KiB of JSON.
 */
export function nodeStatusOf(report: OwnReport): NodeStatus {
  const all = releaseStatusesOf(report);
  for (let shown = all.length; ; shown -= 1) {
    const more = all.length - shown;
    const wants = report.wanted.slice(0, MOST_WANTS).map(({ name, version }) => ({ name, version }));
    const status: NodeStatus = {
      version: 1,
      releases: all.slice(0, shown),
      ...(wants.length > 0 && { wants }),
      ...(more > 0 && { more }),
    };
    if (shown === 0 || Buffer.byteLength(JSON.stringify(status)) <= NODE_STATUS_BYTES) return status;
  }
}

/** The same, with what changes from second to second in coarse steps. */
export function publishedStatus({ releases, ...others }: NodeStatus): NodeStatus {
  return {
    ...others,
    releases: releases.map(({ percent, ...release }) => ({
      ...release,
      ...(percent !== undefined && { percent: percent - (percent % PERCENT_STEP) }),
    })),
  };
}

/** All releases of the report, the current ones and then the newest ones first. */
export function releaseStatusesOf(report: OwnReport): readonly ReleaseStatus[] {
  return report.bundles
    .filter(({ name, version }) => name !== '' && version !== '')
    .toSorted(byInterest)
    .map((bundle) => releaseStatus(bundle, report));
}

/** The first 16 hex digits of its id: how a status names a bundle. */
export function shortBundle({ bundleId }: Pick<OwnBundle, 'bundleId'>): string {
  return hexOf(bundleId).slice(0, 16);
}

/** What is gone or replaced, and tells least. */
const PAST: readonly Phase[] = ['superseded', 'retired'];

function byInterest(a: OwnBundle, b: OwnBundle): number {
  const rank = ({ current, phase }: OwnBundle) => (current === true ? 0 : PAST.includes(phase) ? 2 : 1);
  const age = (b.adoptedAt ?? '9').localeCompare(a.adoptedAt ?? '9');
  return rank(a) - rank(b) || age || b.sequence - a.sequence || a.bundleId.localeCompare(b.bundleId);
}

function releaseStatus(bundle: OwnBundle, report: OwnReport): ReleaseStatus {
  const { name, version, phase, current, runs } = bundle;
  const percent = phase === 'preloading' ? percentOf(bundle, report) : undefined;
  const reason = bundle.reason?.code ?? bundle.degraded?.code;
  return {
    name,
    version,
    bundle: shortBundle(bundle),
    phase,
    ...(current === true && { current }),
    ...(runs !== undefined && { runs }),
    ...(percent !== undefined && { percent }),
    ...(reason !== undefined && { reason }),
  };
}

/** By bytes, as long as they can only be those of this bundle; else by images. Whole, rounded down. */
function percentOf({ images }: OwnBundle, { bundles, progress }: OwnReport): number {
  const isAlone = bundles.filter(({ phase }) => phase === 'preloading').length === 1;
  const { doneBytes, totalBytes } = progress;
  if (isAlone && totalBytes > 0) return percent(doneBytes, totalBytes);
  return percent(images.present, images.total);
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((100 * part) / whole));
}
