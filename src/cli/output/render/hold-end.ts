import type { ActivationHoldReport } from '../../../domain/report/parts/bundle-report.ts';

/** Holds that a person ends in another way than by `activate`: their message says how. */
const OTHER_WAYS: ReadonlySet<string> = new Set<string>([
  'trust/withdrawn',
  'engine/cancelled',
  'engine/tag-of-other-stream',
]);

/**
 * What ends one hold of an activation, in parentheses and after a blank; empty where its message
 * says it. `name`: what `activate` takes for the release.
 */
export function holdEnd({ code, releasedBy, until }: ActivationHoldReport, name: string): string {
  if (releasedBy === 'person')
    return OTHER_WAYS.has(code) ? '' : ` (run 'stickpin activate ${name}' to activate it now)`;
  return ` (it ends automatically${until === undefined || releasedBy === 'event' ? '' : ` on ${until}`})`;
}
