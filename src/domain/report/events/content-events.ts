import { formatCount } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import { baseNeededBy, bundleName, bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import type { DamagedImage } from '../../release/content/damaged-images.ts';
import type { CheckCause, ContentResult } from '../../state/checks.ts';
import type { Healing } from '../../state/effect.ts';
import type { StoredBundle } from '../../state/state.ts';
import { contentFaultText, damageNextText } from '../texts/content-text.ts';

/** Damaged images that were not known before, or of which something else becomes now. */
export function damageEvents(before: Assessment | undefined, { damaged }: Assessment): Event[] {
  const known = new Map(before?.damaged.map(({ image, next }) => [image.reference, next.kind]));
  return damaged
    .filter(({ image, next, isPresent }) => isPresent && isNews(known.get(image.reference), next.kind))
    .map(damageEvent);
}

/** Whether containers are known changes from round to round. */
function isNews(was: DamagedImage['next']['kind'] | undefined, is: DamagedImage['next']['kind']): boolean {
  return was !== is && is !== 'look' && !(was === 'look' && is === 'heal');
}

function damageEvent({ image, bundles, faults, next }: DamagedImage): Event {
  const [bundle] = bundles;
  const { reference } = image;
  const base = bundle && baseNeededBy(image, bundle);
  const title = bundle === undefined ? 'a release' : bundleTitle(bundle.payload);
  const names = bundles.map(({ payload }) => bundleName(payload)).join(', ');
  const what = faults.map(contentFaultText).join('; ');
  const message = `The image ${reference} of ${names} is damaged on this node: ${what}. ${damageNextText(next.kind, title, base)}`;
  return {
    kind: 'imageDamaged',
    level: 'warn',
    message,
    image: reference,
    ...(bundle !== undefined && { bundleId: bundle.bundleId }),
  };
}

/** A damaged image is gone, and is pulled next. */
export function healingEvent({ reference, bundleId, removal }: Healing, bundle: StoredBundle | undefined): Event {
  const title = bundle === undefined ? bundleId : bundleTitle(bundle.payload);
  const what = removal === undefined ? 'What is left of' : 'The damaged image';
  const message = `${what} ${reference} of ${title} was removed; it is pulled again from the blobs that are at hand`;
  return { kind: 'damagedImageRemoved', level: 'info', bundleId, image: reference, message };
}

/** A check has ended. `results`: of the images that it checked. */
export function checkedEvent(cause: CheckCause, results: readonly ContentResult[]): Event {
  const count = (kind: ContentResult['content']['kind']) =>
    results.filter(({ content }) => content.kind === kind).length;
  const parts = [
    `${count('whole')} whole`,
    ...(count('broken') > 0 ? [`${count('broken')} damaged`] : []),
    ...(count('absent') > 0 ? [`${count('absent')} absent`] : []),
    ...(count('unknown') > 0 ? [`${count('unknown')} not known ('stickpin verify-images' says why)`] : []),
  ];
  const message = `The content of ${formatCount(results.length, 'image')} was checked${WHY[cause]}: ${parts.join(', ')}`;
  return { kind: 'imagesChecked', level: 'info', message };
}

const WHY: Readonly<Record<CheckCause, string>> = {
  'unclean-boot': ', since the node was not shut down before it was booted',
  request: ", as 'stickpin verify-images' asked",
  again: ' again',
};
