import { assertNever } from '../../platform/app-error.ts';
import type { StatusReport } from './status-schema.ts';

/** The state of a node in one word, the worst last. Its place is the code of `--exit-code`. */
export const VERDICTS = ['good', 'works', 'needs-person', 'failed'] as const;

export type Verdict = (typeof VERDICTS)[number];

/** `failed`: what a person does first is to call support. */
export function verdictOf({
  advice: { action },
  needsPerson,
  operation,
}: Pick<StatusReport, 'advice' | 'needsPerson' | 'operation'>): Verdict {
  switch (action) {
    case 'call-support':
      return 'failed';
    case 'plug-in':
      return 'needs-person';
    case 'leave-in':
    case 'wait':
      return needsPerson.length > 0 ? 'needs-person' : 'works';
    case 'remove':
    case 'none':
      if (needsPerson.length > 0) return 'needs-person';
      return operation === 'idle' ? 'good' : 'works';
    default:
      return assertNever(action);
  }
}
