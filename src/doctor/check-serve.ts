import { findingsOn } from '../domain/model/reason.ts';
import type { Check, ExaminedNode } from './check.ts';

/**
 * What the settings say about pulls of activated releases, so that nobody is surprised. Whether
 * they are answered now is what the daemon tells under `pulls`.
 */
export function checkServe({ settings }: Pick<ExaminedNode, 'settings'>): readonly Check[] {
  const { ok } = findingsOn('mirrors');
  const { activated, except } = settings.serve;
  const rest = except.length === 0 ? '' : `, but for ${except.join(', ')} (serve.except)`;
  const told = {
    'digests-and-tags': `by the settings, stickpin is to answer pulls of activated releases, with or without a network${rest}: under a tag that a release holds the node gets the image of the release, whatever the tag names elsewhere (serve.activated)`,
    digests: `by the settings, stickpin is to answer pulls of activated releases by digest, with or without a network${rest}; pulls by tag are not answered (serve.activated)`,
    off: 'by the settings, pulls of activated releases are not answered here, and fail without a network (serve.activated)',
  };
  return [
    { subject: 'mirrors', remedy: 'look at section serve of the settings', look: async () => [ok(told[activated])] },
  ];
}
