import type { Policy } from '../../settings/settings.ts';
import type { AnsweredNames } from './pulls-from-elsewhere.ts';

/** What our registry answers of activated releases while nothing is loaded: settings of `serve`. */
export function answeredNames({ serve }: Pick<Policy, 'serve'>): AnsweredNames {
  const { activated, except } = serve;
  return { tags: activated === 'digests-and-tags', digests: activated !== 'off', except };
}
