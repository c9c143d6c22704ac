import type { BundleReport } from './bundle-report.ts';
import type { StatusReport } from './report.ts';

/**
 * What of a report still means something after a boot, as a text to compare: phases, holds, codes
 * of reasons, conditions, what is plugged in and trusted. Not the STATUS line, the progress, counts
 * of images and the words of messages, which change by the second while something is loaded.
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
