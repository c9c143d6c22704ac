import { assertNever } from '../../platform/app-error.ts';
import type { Verdict } from './actions.ts';
import type { StatusReport } from './status-schema.ts';

/** Exit codes of `status --exit-code`. */
export const EXIT_CODES: Readonly<Record<Verdict, number>> = {
  good: 0,
  'waits-for-admin': 0,
  works: 1,
  'needs-person': 2,
  failed: 3,
};

/** `failed` means that support is called. */
export function verdictOf({
  advice: { action, afterwards = action },
  needsPerson,
  waitsForAdmin = [],
  operation,
}: Pick<StatusReport, 'advice' | 'needsPerson' | 'waitsForAdmin' | 'operation'>): Verdict {
  switch (afterwards) {
    case 'call-support':
      return 'failed';
    case 'plug-in':
      return 'needs-person';
    case 'leave-in':
    case 'wait':
    case 'remove':
    case 'none':
      if (needsPerson.length > 0) return 'needs-person';
      if (operation !== 'idle') return 'works';
      if (waitsForAdmin.length > 0) return 'waits-for-admin';
      return afterwards === 'remove' || afterwards === 'none' ? 'good' : 'works';
    default:
      return assertNever(afterwards);
  }
}
