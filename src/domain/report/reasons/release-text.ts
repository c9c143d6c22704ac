import { assertNever } from '../../../platform/app-error.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { BundleLabel, ReleaseReason } from '../../model/reason.ts';

/** What became of a release after its activation. */
export function releaseText(reason: ReleaseReason): string {
  switch (reason.code) {
    case 'engine/tag-contested': {
      const { bundle, tag, reference, names, times } = reason.data;
      return `${tag} of ${bundleTitle(bundle)} was taken away again after it was given back ${times} times within an hour, so it is left alone: it names ${names ?? 'no image'} now and should name ${reference}. Find out what moves it; 'stickpin activate ${bundleName(bundle)}' gives it again`;
    }
    case 'engine/rolled-back':
      return reason.data.open === undefined ? reason.data.recorded : goingBackText(reason.data.open);
    default:
      return assertNever(reason);
  }
}

function goingBackText({ from, to }: { readonly from: BundleLabel; readonly to: BundleLabel }): string {
  const title = bundleTitle(from);
  return `${title} is being rolled back to ${bundleTitle(to)}, which is not activated yet. ${title} is not activated again automatically; 'stickpin activate ${bundleName(from)}' tries it once more`;
}
