import { oneLine } from '../../../platform/plain-text.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { BundleLabel, Reason } from '../../model/reason.ts';
import { reasonText } from '../reasons/reason-text.ts';
import { briefReason } from './brief-reason.ts';
import { fitted, MAX_LINE_LENGTH, MAX_NAME_LENGTH } from './fitted.ts';

/**
 * The sentence of a reason in at most `maxLength` characters: all of `reasonText` where it fits,
 * else what is wrong, what to do, and details while there is room, each as a whole sentence.
 * `more`: as for {@link fitted}.
 */
export function reasonWithin(reason: Reason, maxLength: number = MAX_LINE_LENGTH, more?: string): string {
  const whole = oneLine(reasonText(reason));
  const isWhole = whole.length <= maxLength && !('data' in reason && hasLongName(reason.data));
  return isWhole ? whole : fitted(briefReason(reason), maxLength, more);
}

/** Whether a name would push what is wrong beyond the first 80 characters. */
function hasLongName(data: object): boolean {
  const { bundle, medium = '', media = [], peer = '', how = {}, signedBy = [] } = data as Partial<Named>;
  const names = [bundle === undefined ? '' : bundleTitle(bundle), medium, media.join(', '), peer, signedBy.join(', ')];
  return [...names, ...Object.values(how)].some((name) => name.length > MAX_NAME_LENGTH);
}

/** The names that reasons begin with. */
interface Named {
  readonly bundle: BundleLabel;
  readonly medium: string;
  readonly media: readonly string[];
  readonly peer: string;
  readonly how: Readonly<Record<string, string>>;
  readonly signedBy: readonly string[];
}
