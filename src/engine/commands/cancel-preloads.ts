import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import type { StateStore } from '../../ports/state.ts';

/**
 * Records that a person cancelled every preload that is not complete, and returns their bundles.
 *
 * @throws AppError `engine/nothing-to-cancel` (`reject`) when there is none.
 */
export function cancelPreloads(
  assessment: Assessment | undefined,
  media: readonly MediumId[],
  store: StateStore,
  at: number,
): readonly BundleId[] {
  const cut = (assessment?.bundles ?? []).filter(
    ({ bundle, absentImages, phase }) =>
      absentImages.length > 0 && phase !== 'retired' && bundle.cancelled === undefined,
  );
  if (cut.length === 0) {
    throw new AppError({
      code: 'engine/nothing-to-cancel',
      message: 'nothing is being preloaded, and no preload waits',
      disposition: 'reject',
    });
  }
  const titles = cut.map(({ bundle }) => bundleTitle(bundle.payload)).join(', ');
  const bundleIds = cut.map(({ bundle }) => bundle.bundleId);
  store.cancel(bundleIds, media, { at, kind: 'cancel-requested', message: `Cancelling of ${titles} was asked for` });
  return bundleIds;
}
