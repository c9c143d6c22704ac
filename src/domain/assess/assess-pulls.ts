import { repositoryOf } from '../model/reference.ts';
import { answeredNames } from '../release/pulls/answered-names.ts';
import { providedNames } from '../release/pulls/provided-names.ts';
import { releasesInForce } from '../release/pulls/pull-check.ts';
import { type ElsewhereUse, pullsFromElsewhere } from '../release/pulls/pulls-from-elsewhere.ts';
import { withdrawnAmong } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { type AssessedTags, tagsInWork } from './assess-order.ts';
import { trustedReleases } from './trusted-releases.ts';

/** What one round concludes about pulls without a medium. */
export interface PullAssessment {
  /**
   * Images that static pods and containers ask for and that no release provides. Undefined when
   * these were not looked at.
   */
  readonly elsewhere: readonly ElsewhereUse[] | undefined;
  /** Whether the settings let our registry answer pulls of any image of the activated releases. */
  readonly areServed: boolean;
}

/** Judges the names that are used by what our registry answers now. */
export function assessPulls(
  { imageUses }: Pick<Observed, 'imageUses'>,
  memory: Pick<Memory, 'running'>,
  assessed: AssessedTags,
  policy: Pick<Policy, 'serve'>,
): PullAssessment {
  const names = providedNames(
    assessed.bundles.map(({ bundle }) => bundle),
    {
      contested: assessed.tags.contested.map(({ tag }) => tag),
      inWork: tagsInWork(memory, assessed).map(({ tag }) => tag),
      withdrawn: withdrawnAmong(assessed.bundles),
    },
  );
  return {
    elsewhere: imageUses && pullsFromElsewhere(imageUses.uses, names, answeredNames(policy)),
    areServed: policy.serve.activated !== 'off' && hasServedImage(trustedReleases(assessed), policy),
  };
}

function hasServedImage(releases: readonly StoredBundle[], { serve }: Pick<Policy, 'serve'>): boolean {
  const images = releasesInForce(releases).flatMap(({ contents }) => contents.images);
  return images.some(({ reference }) => !serve.except.includes(repositoryOf(reference)));
}
