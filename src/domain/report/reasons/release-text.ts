import { assertNever } from '../../../platform/app-error.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { ReleaseReason } from '../../model/reason.ts';

/** What became of a release after its activation. */
export function releaseText(reason: ReleaseReason): string {
  switch (reason.code) {
    case 'engine/tag-contested': {
      const { bundle, tag, reference, names, times } = reason.data;
      return `${tag} of ${bundleTitle(bundle)} was taken away again after it was given back ${times} times within an hour, so it is left alone: it names ${names ?? 'no image'} now and should name ${reference}. Find out what moves it; 'stickpin activate ${bundleName(bundle)}' gives it again`;
    }
    case 'engine/rolled-back':
      return reason.data.recorded;
    default:
      return assertNever(reason);
  }
}
