import { assertNever } from '../../../platform/app-error.ts';
import { baseNeededBy, bundleName, bundleTitle } from '../../model/bundle.ts';
import type { BundleId } from '../../model/digest.ts';
import type { ImageContent } from '../../model/image.ts';
import type { DamagedImage } from '../../release/content/damaged-images.ts';
import { keptBundles } from '../../release/recorded-phase.ts';
import type { ContentChecks } from '../../state/checks.ts';
import type { StoredBundle } from '../../state/state.ts';
import { contentFaultText, damageNextText } from '../texts/content-text.ts';

/** What a check has found of one image, for people and programs. */
export interface CheckedImage {
  /** By digest. */
  readonly image: string;
  /** The kept releases that have it: `ocp@4.13.7`. */
  readonly releases: readonly string[];
  /** `damaged`: see `found`. `unknown`: it could not be looked at. */
  readonly result: 'whole' | 'damaged' | 'absent' | 'unknown';
  /** What was looked at, or what is wrong. */
  readonly found: string;
  /** What becomes of it and what to do. Empty when nothing is to be done. */
  readonly next: string;
}

/** The images of kept releases, or of one of them, as the last check has found them. */
export function checkedImages(
  bundles: readonly StoredBundle[],
  { results }: ContentChecks,
  damaged: readonly DamagedImage[],
  only?: BundleId,
): readonly CheckedImage[] {
  const kept = keptBundles(bundles);
  const chosen = kept.filter(({ bundleId }) => only === undefined || bundleId === only);
  const references = new Set(chosen.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  return [...references].map((reference) => {
    const releases = kept.filter(({ contents }) => contents.images.some((image) => image.reference === reference));
    const content = results.get(reference)?.content ?? NOT_CHECKED;
    const damage = damaged.find(({ image }) => image.reference === reference);
    return {
      image: reference,
      releases: releases.map(({ payload }) => bundleName(payload)),
      ...shown(content),
      next: nextOf(content, damage),
    };
  });
}

const NOT_CHECKED: ImageContent = {
  kind: 'unknown',
  reason: { code: 'engine/not-checked', message: 'it was pulled again after it was checked' },
};

function shown(content: ImageContent): Pick<CheckedImage, 'result' | 'found'> {
  switch (content.kind) {
    case 'whole':
      return { result: 'whole', found: content.by === 'bytes' ? 'every blob has its digest' : 'the records fit' };
    case 'broken':
      return { result: 'damaged', found: content.faults.map(contentFaultText).join('; ') };
    case 'absent': {
      const left = content.faults.map(contentFaultText).join('; ');
      return {
        result: 'absent',
        found: left === '' ? 'the runtime does not have it' : `of what is left of it: ${left}`,
      };
    }
    case 'unknown':
      return { result: 'unknown', found: content.reason.message };
    default:
      return assertNever(content);
  }
}

function nextOf(content: ImageContent, damage: DamagedImage | undefined): string {
  const [bundle] = damage?.bundles ?? [];
  if (damage === undefined || bundle === undefined) return content.kind === 'unknown' ? 'Run it again.' : '';
  if (!damage.isPresent && damage.next.kind === 'heal') return 'It is pulled again.';
  return damageNextText(damage.next.kind, bundleTitle(bundle.payload), baseNeededBy(damage.image, bundle));
}
