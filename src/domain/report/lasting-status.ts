import type { BundleReport } from './parts/bundle-report.ts';
import type { StatusReport } from './report.ts';

/**
 * The parts of a report that are still valid after a boot, as a text to compare: phases, holds,
 * codes of reasons, conditions, media and trusted keys. It leaves out the STATUS line, the
 * progress, counts of images and messages, which change every second during a preload.
 */
export function lastingStatus(report: StatusReport): string {
  const { status: _status, progress: _progress, runtime, bundles, rejected, ...others } = report;
  return JSON.stringify({
    ...others,
    runtime: runtime.reachable,
    bundles: bundles.map(lastingBundle),
    rejected: rejected.map(({ reason, ...where }) => ({ ...where, code: reason.code })),
  });
}

function lastingBundle({ images: _images, reason, degraded, conditions, activationHolds, ...others }: BundleReport) {
  return {
    ...others,
    reason: reason?.code,
    degraded: degraded?.code,
    activationHolds: activationHolds?.map(({ code }) => code),
    conditions: conditions?.map(({ message: _message, ...condition }) => condition),
  };
}
