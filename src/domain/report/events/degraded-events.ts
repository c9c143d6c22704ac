import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import { reasonText } from '../reasons/reason-text.ts';

/** Reported by a line of their own when they come. */
const TOLD_ELSEWHERE: ReadonlySet<string> = new Set([
  'runtime/policy',
  'runtime/no-space',
  'runtime/read-only',
  'store/no-space',
  'store/read-only',
  'store/damaged',
  'runtime/config',
  'media/blob-damaged',
  'bundle/blob-missing',
  'engine/image-missing',
  'engine/image-damaged',
  'engine/needs-copy',
  'engine/tag-contested',
  'engine/tags',
]);

/** A withdrawn trust is reported as the reason of the bundle. */
function isToldElsewhere(code: string): boolean {
  return TOLD_ELSEWHERE.has(code) || code.startsWith('trust/');
}

/**
 * A bundle some of whose images could not be pulled by quick tries. Reported once, until it is
 * repaired.
 */
export function degradedEvents(was: BundleAssessment | undefined, { bundle, degraded }: BundleAssessment): Event[] {
  if (degraded === undefined || was?.degraded !== undefined || isToldElsewhere(degraded.code)) return [];
  const next =
    degraded.code === 'runtime/mirrors-hidden'
      ? 'Until then its images are pulled from elsewhere, which fails without a network.'
      : 'The rest of it continues; this is tried again every 5 minutes while there is a source for it.';
  const message = `${bundleTitle(bundle.payload)} is degraded: ${reasonText(degraded)}. ${next}`;
  return [{ kind: 'bundleDegraded', level: 'warn', bundleId: bundle.bundleId, message, code: degraded.code }];
}
