import { fitted, foreignSentences } from '../brief/fitted.ts';

/**
 * `STATUS=` of a service that can't start, which systemd shows until the next start. @param code of
 * the error @param reason its message
 */
export function startFaultLine(unit: string, code: string | undefined, reason: string): string {
  const [what = '', ...more] = foreignSentences(`Can't start: ${reason}`);
  const isOfSettings = code?.startsWith('config/') === true;
  return fitted([what, ...(isOfSettings ? [`Correct it, then run 'systemctl restart ${unit}'.`] : more)]);
}
