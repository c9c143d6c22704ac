import { isLoaded } from '../../domain/fleet/loaded.ts';
import {
  NODE_STATUS_BYTES,
  NODE_STATUS_RELEASES,
  type NodeStatus,
  type ReleaseStatus,
} from '../../domain/fleet/node-status.ts';
import { hexOf } from '../../domain/model/digest.ts';
import type { Phase } from '../../domain/model/phase.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

/** They leave most of the room for releases. */
const MOST_WANTS = 3;

/** As few as other nodes may offer at once that this one does not take. */
const MOST_REJECTS = 16;

/** A percentage is published in these steps, so that a preload writes ten times. */
const PERCENT_STEP = 10;

/**
 * What this node tells the others on the wire: the current releases first, then the newest ones.
 */
export function nodeStatusOf(report: OwnReport): NodeStatus {
  const all = releaseStatusesOf(report);
  const more = all.length - NODE_STATUS_RELEASES;
  const wants = report.wanted.slice(0, MOST_WANTS).map(({ name, version }) => ({ name, version }));
  const rejects = rejectsOf(report);
  return {
    version: 1,
    ...(report.arch !== undefined && { arch: report.arch }),
    releases: all.slice(0, NODE_STATUS_RELEASES),
    ...(wants.length > 0 && { wants }),
    ...(rejects.length > 0 && { rejects }),
    ...(more > 0 && { more }),
  };
}

/**
 * Of other nodes a path ends with the id of its bundle, also of one whose envelope is not read to
 * its end.
 */
function rejectsOf({ rejected, bundles }: OwnReport): readonly string[] {
  const taken = new Set(bundles.map(shortBundle));
  const ids = rejected.flatMap(
    ({ path, bundleId = path }) => /sha256:([0-9a-f]{16})[0-9a-f]{48}$/.exec(bundleId)?.[1] ?? [],
  );
  return [...new Set(ids)].filter((id) => !taken.has(id)).slice(0, MOST_REJECTS);
}

/**
 * What of it is written to the Node: as many releases as fit into 2 KiB of JSON, those first that
 * others may wait for. What changes from second to second is in coarse steps.
 */
export function publishedStatus({ releases, more: cut = 0, ...others }: NodeStatus): NodeStatus {
  const all = releases.toSorted((a, b) => urgency(a) - urgency(b)).map(coarse);
  for (let shown = all.length; ; shown -= 1) {
    const more = cut + all.length - shown;
    const status: NodeStatus = { ...others, releases: all.slice(0, shown), ...(more > 0 && { more }) };
    if (shown === 0 || Buffer.byteLength(JSON.stringify(status)) <= NODE_STATUS_BYTES) return status;
  }
}

/** Phases from which a release goes on. */
const UNFINISHED: readonly Phase[] = ['detected', 'held', 'preloading', 'ready'];

function urgency({ phase, current }: ReleaseStatus): number {
  if (UNFINISHED.includes(phase)) return 0;
  if (current === true) return 1;
  return PAST.includes(phase) ? 3 : 2;
}

function coarse({ percent, ...release }: ReleaseStatus): ReleaseStatus {
  return { ...release, ...(percent !== undefined && { percent: percent - (percent % PERCENT_STEP) }) };
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
  const age = newsTime(b).localeCompare(newsTime(a));
  return rank(a) - rank(b) || age || b.sequence - a.sequence || a.bundleId.localeCompare(b.bundleId);
}

/** Others wait for what was activated last. */
function newsTime({ current, activatedAt, adoptedAt }: OwnBundle): string {
  return (current === true ? activatedAt : undefined) ?? adoptedAt ?? '9';
}

/**
 * The part of a status that tells whether all images are present and pinned. What was so counts as
 * so while the runtime does not answer: its restart takes away no label.
 */
export function loadedStatus({ phase, conditions }: OwnBundle): Pick<ReleaseStatus, 'phase' | 'incomplete'> {
  const isDenied = conditions.some(({ type, status }) => ['Preloaded', 'Pinned'].includes(type) && status === 'False');
  return { phase, ...(isDenied && isLoaded({ phase }) && { incomplete: true }) };
}

function releaseStatus(bundle: OwnBundle, report: OwnReport): ReleaseStatus {
  const { name, version, phase, current, runs } = bundle;
  const percent = phase === 'preloading' ? percentOf(bundle, report) : undefined;
  const reason = personWaitedFor(bundle) ?? bundle.reason?.code ?? bundle.degraded?.code;
  return {
    name,
    version,
    bundle: shortBundle(bundle),
    ...loadedStatus(bundle),
    ...(current === true && { current }),
    ...(runs !== undefined && { runs }),
    ...(percent !== undefined && { percent }),
    ...(reason !== undefined && { reason }),
  };
}

/** Why a release that is ready waits for a person: what other nodes do changes nothing then. */
function personWaitedFor({ phase, activationHolds }: OwnBundle): string | undefined {
  return phase === 'ready' ? activationHolds.find(({ releasedBy }) => releasedBy === 'person')?.code : undefined;
}

/**
 * By bytes, as long as they can only be those of this bundle; else by images. Whole, rounded down.
 */
function percentOf({ images }: OwnBundle, { bundles, progress }: OwnReport): number {
  const isAlone = bundles.filter(({ phase }) => phase === 'preloading').length === 1;
  const { doneBytes, totalBytes } = progress;
  if (isAlone && totalBytes > 0) return percent(doneBytes, totalBytes);
  return percent(images.present, images.total);
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((100 * part) / whole));
}
