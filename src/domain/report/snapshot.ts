import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import type { BundleReport, StatusReport } from './status-schema.ts';

/**
 * The observations of a round, the memory of the engine, and the conclusions. All reports use it.
 */
export interface Snapshot {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly assessment: Assessment;
}

/** An event of a medium. `failed` means that it can't be read. */
type MediaChange = (typeof MEDIA_CHANGES)[number];

export const MEDIA_CHANGES = ['plugged', 'removed', 'failed'] as const;

/**
 * Returns the events between two reports. Nothing is known before the first one, so everything in
 * it counts as new.
 *
 * @param elapsedMs the time between the reports
 * @returns the time spent preloading, and the codes of new rejections
 */
export function reportChanges(before: StatusReport | undefined, after: StatusReport, elapsedMs: number) {
  const key = ({ medium, path, reason }: StatusReport['rejected'][number]) => `${medium}\n${path}\n${reason.code}`;
  const known = new Set(before?.rejected.map(key));
  const isPreloading = before?.operation === 'preloading';
  return {
    preloadedMs: isPreloading ? Math.max(0, elapsedMs) : 0,
    rejections: after.rejected.filter((one) => !known.has(key(one))).map(({ reason }) => reason.code),
    media: mediaChanges(before?.media ?? [], after.media),
  };
}

function mediaChanges(before: StatusReport['media'], after: StatusReport['media']): MediaChange[] {
  const states = new Map(before.map(({ medium, state }) => [medium, state]));
  const now = new Set(after.map(({ medium }) => medium));
  return [
    ...after.flatMap(({ medium, state }): MediaChange[] => [
      ...(states.has(medium) ? [] : ['plugged' as const]),
      ...(state === 'failed' && states.get(medium) !== 'failed' ? ['failed' as const] : []),
    ]),
    ...before.flatMap(({ medium }): MediaChange[] => (now.has(medium) ? [] : ['removed'])),
  ];
}

/**
 * Returns the parts of a report that stay valid after a boot, as a text to compare: phases, holds,
 * codes of reasons, conditions, media and trusted keys. It leaves out the STATUS line, the
 * progress, counts of images and messages, which change every second during a preload.
 */
export function lastingStatus(report: StatusReport): string {
  const { status: _status, advice, needsPerson, progress: _progress, runtime, bundles, rejected, ...others } = report;
  return JSON.stringify({
    ...others,
    advice: [advice.action, advice.code],
    needsPerson: needsPerson.map(({ code, bundle }) => [code, bundle]),
    runtime: runtime.reachable,
    bundles: bundles.map(lastingBundle),
    rejected: rejected.map(({ reason, ...where }) => ({ ...where, code: reason.code })),
  });
}

function lastingBundle(bundle: BundleReport) {
  const { images: _images, artifacts: _artifacts, reason, degraded, conditions, activationHolds, ...others } = bundle;
  return {
    ...others,
    reason: reason?.code,
    degraded: degraded?.code,
    activationHolds: activationHolds?.map(({ code }) => code),
    conditions: conditions?.map(({ message: _message, ...condition }) => condition),
  };
}

/**
 * Returns the progress of a bundle. A layer counts in full once an image or an artifact with it is
 * present. During its transfer the sent part counts.
 *
 * @param sentBytes the furthest byte that the registry sent of each blob
 */
export function bytesDone(
  { bundle, absentArtifacts }: BundleAssessment,
  { presentLayers }: Assessment,
  sentBytes: ReadonlyMap<Digest, number>,
) {
  const { layers: all, artifacts = [] } = bundle.contents;
  const copied = new Set(artifacts.filter((one) => !absentArtifacts.includes(one)).flatMap(({ layers }) => layers));
  let doneBytes = 0;
  let totalBytes = 0;
  for (const [at, { digest, sizeBytes }] of all.entries()) {
    totalBytes += sizeBytes;
    doneBytes +=
      presentLayers.has(digest) || copied.has(at) ? sizeBytes : Math.min(sizeBytes, sentBytes.get(digest) ?? 0);
  }
  return { doneBytes, totalBytes };
}
