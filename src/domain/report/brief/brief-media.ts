import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { shortDigest } from '../../model/digest.ts';
import type { Interruption, MediaReason } from '../../model/reason.ts';
import { flawsText, interruptionText } from '../reasons/media-text.ts';
import { briefName, briefNames, briefTitle } from './brief-name.ts';
import { SEE_LIST, sentencesOf } from './fitted.ts';

/** As `briefReason`, for a preload that waits for something that no plugged medium gives. */
export function briefMedia(reason: MediaReason): readonly string[] {
  const { bundle, images } = { images: undefined, ...reason.data };
  const title = briefTitle(bundle);
  const present = images === undefined ? '' : `${images.present}/${images.total} images are here.`;
  switch (reason.code) {
    case 'engine/no-base':
      return [...baseSentences(title, reason.data), SEE_LIST];
    case 'engine/cancelled':
      return [`The preload of ${title} was cancelled.`, "Plug its stick in again, or run 'stickpin rescan'.", present];
    case 'engine/offline': {
      const media = briefNames(reason.data.media, 'a medium');
      return [`${title} on ${media} has no blobs.`, 'Plug in the stick that has them, or set preload.online = true.'];
    }
    case 'bundle/blob-missing':
      return [...blobSentences(title, reason.data), present, SEE_LIST];
    case 'engine/needs-copy': {
      const { flaws } = reason.data;
      const why = flawsText({ ...flaws, medium: briefName(flaws.medium) });
      return [`${title} needs an undamaged copy.`, 'Copy the bundle to a stick again, and plug it in.', `Its ${why}.`];
    }
    case 'engine/no-source':
      return sentencesOf(interruptionText(title, progressOf(reason.data.images), briefHow(reason.data.how)));
    case 'media/peer-waited-for':
      return [`Waiting for ${briefName(reason.data.peer)} to give ${title}.`, present];
    case 'media/looking':
      return [`stickpin has just started and looks whether ${title} is plugged in.`, present];
    case 'media/reading':
      return [`${title} continues when ${briefName(reason.data.medium)} has been read again.`, present];
    default:
      return assertNever(reason);
  }
}

function progressOf({ present, total }: { readonly present: number; readonly total: number }): string {
  return `${present}/${total} images`;
}

/** An interruption with the names in it made short. */
export function briefHow(how: Interruption): Interruption {
  switch (how.kind) {
    case 'unmounted':
      return { ...how, medium: briefName(how.medium) };
    case 'taken-out':
      return how.folder === undefined ? how : { ...how, folder: briefName(how.folder) };
    case 'peer-away':
      return { ...how, peer: briefName(how.peer) };
    case 'unplugged':
      return how;
    default:
      return assertNever(how);
  }
}

function baseSentences(
  title: string,
  { base, layers, holders = [] }: Extract<MediaReason, { code: 'engine/no-base' }>['data'],
): readonly string[] {
  const digest = base.bundleId === undefined ? 'another bundle' : `bundle ${shortDigest(base.bundleId)}`;
  const name = briefName(base.name ?? digest);
  const [stick = name] = holders;
  return [
    `${title} needs base ${name}.`,
    `Plug in the stick with ${briefName(stick)}, or one with all of ${title}.`,
    `It lacks ${formatCount(layers, 'layer')}.`,
  ];
}

function blobSentences(
  title: string,
  data: Extract<MediaReason, { code: 'bundle/blob-missing' }>['data'],
): readonly string[] {
  switch (data.kind) {
    case 'on-all-media': {
      const { media, blobs, first } = data;
      const which = 'digest' in first ? `${shortDigest(first.digest)} (${first.why})` : briefName(first.reference);
      return [
        `${title} lacks ${formatCount(blobs, 'blob')} on ${briefNames(media, 'its medium')}.`,
        'Plug in the stick that carries the rest, or copy the bundle again.',
        `The first is ${which}.`,
      ];
    }
    case 'rest':
      return [
        `${title} still lacks ${formatCount(data.layers, 'layer')} (${formatBytes(data.sizeBytes)}).`,
        'Plug in the stick that carries the rest.',
        `The first is ${shortDigest(data.first)}.`,
      ];
    default:
      return assertNever(data);
  }
}
