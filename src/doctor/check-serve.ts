import { findingsOn } from '../domain/model/finding.ts';
import type { Check, ExaminedNode } from './check.ts';

/** What the node sees under the tags of activated releases, so that nobody is surprised. */
export function checkServe({ settings }: Pick<ExaminedNode, 'settings'>): readonly Check[] {
  const { ok } = findingsOn('mirrors');
  const { activated, except } = settings.serve;
  const rest = except.length === 0 ? '' : `, but for ${except.join(', ')} (serve.except)`;
  const told = {
    'digests-and-tags': `pulls of activated releases are answered here, with or without a network${rest}: under a tag that a release holds the node gets the image of the release, whatever the tag names elsewhere (serve.activated)`,
    digests: `pulls of activated releases by digest are answered here, with or without a network${rest}; pulls by tag are not (serve.activated)`,
    off: 'pulls of activated releases are not answered here, and fail without a network (serve.activated)',
  };
  return [
    { subject: 'mirrors', remedy: 'look at section serve of the settings', look: async () => [ok(told[activated])] },
  ];
}
