import type { BundleErrorCode } from '../../../bundle/bundle-error.ts';
import { type Finding, findingsOn } from '../../../domain/model/reason.ts';
import type { ActivationHoldReport, BundleReport } from '../../../domain/report/parts/bundle-report.ts';
import { remedyFor } from '../../../domain/report/reasons/remedies.ts';
import type { StatusReport } from '../../../domain/report/report.ts';
import { commandNameIn, titleIn } from '../../output/text.ts';

/** What is wrong with a release, and what to do. What ends automatically is no warning. */
export function releaseFindings(bundle: BundleReport, bundles: readonly BundleReport[] = [bundle]): Finding[] {
  const { degraded, reason, activationHolds = [] } = bundle;
  const trouble = degraded ?? reason;
  if (trouble === undefined) return [];
  const { ok, warning } = findingsOn('releases');
  const message = `${titleIn(bundle, bundles)}: ${trouble.message}`;
  const isHold = activationHolds.some(({ code }) => code === trouble.code);
  const remedy =
    isHold && activationHolds.every(endsAlone) ? undefined : remedyFor(trouble.code, commandNameIn(bundle, bundles));
  return [remedy === undefined ? ok(message) : warning(message, remedy)];
}

/** Whether time or another event that is on its way ends a hold. A failed hook is tried again. */
function endsAlone({ code, releasedBy }: ActivationHoldReport): boolean {
  if (code === 'hook') return releasedBy === 'event';
  return releasedBy === 'time' || (releasedBy === 'event' && remedyFor(code, '') === undefined);
}

/** Codes of rejections that another copy of the bundle would not have. */
const DAMAGED: ReadonlySet<string> = new Set<BundleErrorCode>([
  'bundle/incomplete',
  'bundle/envelope',
  'bundle/payload',
  'bundle/digest',
  'bundle/index',
  'bundle/layout',
  'bundle/contents',
  'bundle/inconsistent',
  'bundle/bad-signature',
  'bundle/tar',
  'media/read',
]);
const COPY_AGAIN =
  "copy the bundle to the medium again, or bring it on another one; 'stickpin bundle verify --full' tells whether a copy is good";

/** What is wrong with a bundle on a medium that this node does not take. */
export function rejectionFinding({ medium, path, reason }: StatusReport['rejected'][number]): Finding {
  const { ok, warning } = findingsOn('releases');
  const message = `${path} on ${medium} is rejected: ${reason.message}`;
  const remedy = DAMAGED.has(reason.code) ? COPY_AGAIN : remedyFor(reason.code, path);
  return remedy === undefined ? ok(message) : warning(message, remedy);
}
