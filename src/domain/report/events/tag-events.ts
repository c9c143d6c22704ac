import { formatCount } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import { contestReason, restoredReleases, type StrayTag } from '../../release/tags.ts';
import type { StoredBundle } from '../../state/state.ts';
import { reasonText } from '../reasons/reason-text.ts';

/** Contested tags that were not reported yet. */
export function contestEvents({ tags, bundles }: Assessment, told: ReadonlySet<string>): Event[] {
  const restored = restoredReleases(bundles.map(({ bundle }) => bundle));
  return tags.contested.flatMap((lost): Event[] => {
    const holder = [...restored].find(({ bundleId }) => bundleId === lost.bundleId);
    if (told.has(lost.tag) || holder === undefined) return [];
    const message = reasonText(contestReason(lost, holder));
    return [{ kind: 'tagContested', level: 'warn', bundleId: lost.bundleId, message }];
  });
}

/**
 * The message when lost tags name their images again: all in one line, with what the first of them
 * named meanwhile.
 */
export function restoredMessage(lost: readonly StrayTag[], { payload }: StoredBundle): string {
  const [first] = lost;
  const verb = lost.length === 1 ? 'names its image' : 'name their images';
  const meanwhile = first?.names === undefined ? 'was gone' : `named ${first.names}`;
  return `${formatCount(lost.length, 'tag')} of ${bundleTitle(payload)} ${verb} again, first ${first?.tag}, which ${meanwhile} and names ${first?.reference} now`;
}
