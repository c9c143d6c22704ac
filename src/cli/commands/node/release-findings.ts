import { type Finding, findingsOn } from '../../../domain/model/finding.ts';
import type { ActivationHoldReport, BundleReport } from '../../../domain/report/parts/bundle-report.ts';
import { remedyFor } from '../../../domain/report/reasons/remedies.ts';
import { shownName } from '../../output/shown-name.ts';

/** What is wrong with a release, and what to do. What ends automatically is no warning. */
export function releaseFindings({ degraded, reason, activationHolds = [], ...bundle }: BundleReport): Finding[] {
  const trouble = degraded ?? reason;
  if (trouble === undefined) return [];
  const { ok, warning } = findingsOn('releases');
  const title = shownName(bundle);
  const message = `${title}: ${trouble.message}`;
  const isHold = activationHolds.some(({ code }) => code === trouble.code);
  const remedy = isHold && activationHolds.every(endsAlone) ? undefined : remedyFor(trouble.code, title);
  return [remedy === undefined ? ok(message) : warning(message, remedy)];
}

/** Whether time or another event that is on its way ends a hold. A failed hook is tried again. */
function endsAlone({ code, releasedBy }: ActivationHoldReport): boolean {
  if (code === 'hook') return releasedBy === 'event';
  return releasedBy === 'time' || (releasedBy === 'event' && remedyFor(code, '') === undefined);
}
