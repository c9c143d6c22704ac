import type { OfferedBundle } from '../fleet/node-status.ts';
import type { StoredBundle } from '../state/state.ts';
import { FINAL_REFUSALS } from './reasons/reason-text.ts';
import type { BundleReport, StatusReport } from './status-schema.ts';

export type WantsReport = Pick<StatusReport, 'bundles' | 'notices' | 'rejected' | 'rejectedNames'>;

/**
 * Whether this node reads a bundle that another node offers: it does not know the bundle, or lacks
 * images or artifacts of it. So a bundle that every node has causes no work. The offer is not
 * verified: a wrong name only keeps the bundle from being taken.
 *
 * @param forgotten bundles whose stream was reset after them: their sequence does not count
 */
export function isWantedFromPeers(
  offered: OfferedBundle,
  report: WantsReport,
  forgotten: ReadonlySet<string> = new Set(),
): boolean {
  const { bundleId, name, version } = offered;
  const known = report.bundles.find((bundle) => bundle.bundleId === bundleId);
  if (known !== undefined) return lacksImages(known);
  if (report.notices.some((notice) => notice.bundleId === bundleId)) return false;
  if (report.rejectedNames.some((rejected) => rejected.name === name && rejected.version === version)) return false;
  return !report.bundles.some((bundle) => !forgotten.has(bundle.bundleId) && isPast(bundle, offered));
}

/** This node activated a release that is not older than the offered one. */
function isPast({ name, sequence, activatedAt }: BundleReport, offered: OfferedBundle): boolean {
  return activatedAt !== undefined && name === offered.name && sequence >= offered.sequence;
}

function lacksImages({ phase, hold, cancelled, images, artifacts }: BundleReport): boolean {
  if (hold === 'approval') return true;
  // A cancelled preload continues only with a stick that a person plugs in.
  if (phase === 'retired' || phase === 'rejected' || cancelled !== undefined) return false;
  if (artifacts !== undefined && artifacts.present < artifacts.total) return true;
  return phase === 'detected' || images.present < images.total;
}

/** Returns bundles whose stream was reset after they were adopted. */
export function forgottenBundles(bundles: readonly StoredBundle[]): ReadonlySet<string> {
  return new Set(bundles.flatMap(({ bundleId, resetAt }) => (resetAt === undefined ? [] : [bundleId])));
}

/**
 * Changes when a final refusal may be judged in another way: with the keys, with a reset of a
 * stream, and with adopted bundles.
 */
export function refusalGrounds(bundles: readonly StoredBundle[], trustRevision: string): string {
  return [trustRevision, ...bundles.map(({ bundleId, resetAt }) => `${bundleId} ${resetAt ?? ''}`).sort()].join('\n');
}

/** Such bundles are not read again, unless {@link refusalGrounds} changes. */
export function refusedForGood({ rejected }: WantsReport): readonly string[] {
  return rejected.flatMap(({ bundleId, reason }) =>
    bundleId !== undefined && FINAL_REFUSALS.has(reason.code) ? [bundleId] : [],
  );
}

/** Returns bundles on media that this node does not trust, and so must not give to others. */
export function withheldFromPeers({ bundles, rejected }: WantsReport): ReadonlySet<string> {
  const held = bundles.filter(({ phase, hold }) => phase === 'rejected' || hold === 'approval');
  const untrusted = rejected.filter(({ reason }) => reason.code.startsWith('trust/'));
  return new Set([...held, ...untrusted].flatMap(({ bundleId }) => (bundleId === undefined ? [] : [bundleId])));
}
