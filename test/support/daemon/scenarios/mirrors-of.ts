/**
 * The repositories that are mirrored at rest while `serve.activated` is on: those of activated
 * releases and of fallbacks. @param phases as in `Row`
 */
export function mirrorsOf(phases: string): string {
  return /\b(?:activated|active|proven|superseded)\b/.test(phases) ? 'api base etcd' : 'nothing';
}
