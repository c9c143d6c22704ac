/**
 * The repositories that are mirrored at rest while `serve.activated` is on: those of releases that
 * are ready, activated, or fallbacks. @param phases as in `Row`
 */
export function mirrorsOf(phases: string): string {
  return /\b(?:ready|activated|active|proven|superseded)\b/.test(phases) ? 'api base etcd' : 'nothing';
}
