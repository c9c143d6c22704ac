import { assertNever } from '../../../platform/app-error.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { ImageReason } from '../../model/reason.ts';
import { contentFaultText, damageNextText } from '../texts/content-text.ts';
import { flawsText, HOW_TO_COPY } from './media-text.ts';

type Missing = Extract<ImageReason, { code: 'engine/image-missing' }>['data'];
type Unpinned = Extract<ImageReason, { code: 'runtime/pins-pending' }>['data'];

/** What is wrong with the images of a bundle, and what to do. */
export function imageText(reason: ImageReason): string {
  switch (reason.code) {
    case 'engine/image-missing':
      return missingText(reason.data);
    case 'engine/image-damaged':
      return damagedText(reason.data);
    case 'engine/documents-missing':
      return lostDocumentsText(reason.data);
    case 'runtime/pins-pending':
      return `${unpinnedCount(reason.data)} present and not pinned yet`;
    case 'runtime/pins-ignored':
      return ignoredText(reason.data);
    default:
      return assertNever(reason);
  }
}

function missingText({ bundle, missing, total, named, isList, next }: Missing): string {
  const count = `${missing} of ${total} images of ${bundleTitle(bundle)} ${missing === 1 ? 'is' : 'are'} missing`;
  const then = nextText(next, bundleTitle(bundle), missing === 1);
  if (!isList) return `${count}, first ${named[0]}. ${then}`;
  const rest = missing - named.length;
  return `${count}: ${named.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}. ${then}`;
}

function damagedText(data: Extract<ImageReason, { code: 'engine/image-damaged' }>['data']): string {
  const { bundle, damaged, total, reference, fault, next, base } = data;
  const title = bundleTitle(bundle);
  const count = `${damaged} of ${total} images of ${title} ${damaged === 1 ? 'is' : 'are'} damaged on this node`;
  return `${count}, first ${reference}: ${contentFaultText(fault)}. ${damageNextText(next, title, base)}`;
}

function lostDocumentsText(data: Extract<ImageReason, { code: 'engine/documents-missing' }>['data']): string {
  const { bundle, lacking, total, reference } = data;
  const title = bundleTitle(bundle);
  const whose = lacking === 1 ? 'its' : 'their';
  return `${lacking} of ${total} images of ${title} can't be pulled again without a network, since ${whose} manifest or config is lost on this node, first ${reference}. Plug in the stick of ${title}`;
}

function nextText(next: Missing['next'], title: string, isOne: boolean): string {
  switch (next.kind) {
    case 'pull':
      return isOne ? 'It is pulled again.' : 'They are pulled again.';
    case 'look':
      return 'stickpin has just started and looks at the media.';
    case 'copy':
      return `An undamaged copy is needed: ${flawsText(next.flaws)}. ${HOW_TO_COPY}`;
    case 'plug-in':
      return `Plug in the stick of ${title}${next.base === undefined ? '' : `, and the one with its base ${next.base}`}.`;
    default:
      return assertNever(next);
  }
}

function unpinnedCount({ bundle, unpinned, total }: Unpinned): string {
  return `${unpinned} of ${total} images of ${bundleTitle(bundle)} ${unpinned === 1 ? 'is' : 'are'}`;
}

function ignoredText(data: Extract<ImageReason, { code: 'runtime/pins-ignored' }>['data']): string {
  const { cause } = data;
  switch (cause.kind) {
    case 'fault':
      return `${unpinnedCount(data)} present and not pinned. ${cause.fault.message}`;
    case 'not-reported':
      return `${unpinnedCount(data)} present, but the runtime does not report ${data.unpinned === 1 ? 'it' : 'them'} as pinned after ${cause.attempts} tries, first ${cause.first}. Look for another file that sets pinned_images and sorts after 99-stickpin.conf, and read the runtime's own journal`;
    default:
      return assertNever(cause);
  }
}
