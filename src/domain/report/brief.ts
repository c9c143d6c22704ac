import { assertNever } from '../../platform/app-error.ts';
import { oneLine, sentence } from '../../platform/plain-text.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';
import { shortDigest } from '../model/digest.ts';
import type {
  AdoptionReason,
  ImageReason,
  Interruption,
  MediaReason,
  Reason,
  ReleaseReason,
  RuntimeReason,
  TrustReason,
} from '../model/reason.ts';
import type { StoredBundle } from '../state/state.ts';
import {
  briefCommand,
  briefName,
  briefNames,
  briefTitle,
  type Entries,
  fitted,
  foreignSentences,
  hasLongName,
  hasNamesake,
  MAX_LINE_LENGTH,
  SEE_LIST,
  sentencesOf,
} from './fitted.ts';
import { flawsText, interruptionText } from './reasons/media-text.ts';
import { reasonText } from './reasons/reason-text.ts';
import { damageNextText } from './texts/release-text.ts';

function briefMedia(reason: MediaReason): readonly string[] {
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

function briefRefusal(reason: AdoptionReason | TrustReason): readonly string[] {
  switch (reason.code) {
    case 'bundle/arch': {
      const { bundle, bundleArch, nodeArch } = reason.data;
      return [`${briefTitle(bundle)} is made for ${bundleArch}.`, `Bring the bundle made for ${nodeArch}.`];
    }
    case 'bundle/sequence':
      return briefSequence(reason.data);
    case 'bundle/version':
      return [`${briefTitle(reason.data.bundle)} does not fit the versions of its stream.`, SEE_LIST];
    case 'bundle/base': {
      const { bundle, base } = reason.data;
      const next = `Make it again with a base of stream ${briefName(bundle.name)}, or without one.`;
      return [`${briefTitle(bundle)} builds on a bundle of another stream.`, next, `That is ${briefTitle(base)}.`];
    }
    case 'bundle/expired':
      return [`${briefTitle(reason.data.bundle)} expired on ${reason.data.expires}.`, 'Bring a newer one.'];
    case 'bundle/from-the-future': {
      const { bundle, created } = reason.data;
      const next = 'Check the clock of the machine that made it.';
      return [`${briefTitle(bundle)} was made in the future.`, next, `It says it was made on ${created}.`];
    }
    default:
      return briefTrust(reason);
  }
}

function briefSequence(data: Extract<AdoptionReason, { code: 'bundle/sequence' }>['data']): readonly string[] {
  const title = briefTitle(data.bundle);
  switch (data.kind) {
    case 'below-floor':
      return [
        `${title} is older than the release activated here.`,
        `Bring a newer bundle, or run 'stickpin trust reset ${data.bundle.name}' and plug it in again.`,
        `Its sequence is ${data.sequence}, that of the other one ${data.floor}.`,
        SEE_LIST,
      ];
    case 'step': {
      const stream = data.bundle.name;
      const next = `If it is meant, run 'stickpin trust reset ${stream}' and plug it in again.`;
      const what = `${title}: sequence ${data.sequence} is more than ${data.step} above ${data.highest}.`;
      return [what, next, SEE_LIST];
    }
    case 'same':
      return [
        `${title} has the same sequence ${data.sequence} as ${briefTitle(data.known)}.`,
        'Make it again with a higher --sequence.',
        `Their digests: ${shortDigest(data.bundleId)} and ${shortDigest(data.knownId)}.`,
      ];
    default:
      return assertNever(data);
  }
}

function briefTrust(reason: TrustReason): readonly string[] {
  switch (reason.code) {
    case 'trust/approval':
      return briefApproval(reason.data);
    case 'trust/rejected': {
      const { bundle, bundleId, why } = reason.data;
      const title = bundle === undefined ? `Bundle ${shortDigest(bundleId)}` : briefTitle(bundle);
      const next = `'stickpin approve ${bundleId}' takes that back.`;
      return [
        `${title} was rejected on this node.`,
        next,
        why === undefined ? '' : sentence(`Reason: ${oneLine(why)}`),
      ];
    }
    case 'trust/blind': {
      const { bundle, cause = "see 'stickpin doctor'" } = reason.data;
      const why = sentencesOf(sentence(`Cause: ${oneLine(cause)}`));
      return [
        `${briefTitle(bundle)} is not trusted while revocations can't be read.`,
        "See 'stickpin doctor'.",
        ...why,
      ];
    }
    case 'trust/threshold': {
      const { bundle, signedBy, threshold } = reason.data;
      const what = `${briefTitle(bundle)} needs ${threshold} distinct keys now.`;
      return [what, BRING, `It was signed by ${briefNames(signedBy, NOBODY)}.`, STAYS];
    }
    case 'trust/key-revoked':
      return [`${briefTitle(reason.data.bundle)} is not trusted any more: its key is revoked.`, BRING, STAYS, SEE_LIST];
    case 'trust/role': {
      const { bundle, role } = reason.data;
      const what = `${briefTitle(bundle)} is not trusted any more.`;
      return [what, `Role ${briefName(role)} does not count for it now: see 'stickpin list'.`, BRING, STAYS];
    }
    default:
      return assertNever(reason);
  }
}

const NOBODY = 'nobody trusted';

const BRING = 'Bring it signed again by a trusted key, or a newer release.';

const STAYS = 'Its pins stay.';

function briefApproval(data: Extract<TrustReason, { code: 'trust/approval' }>['data']): readonly string[] {
  const next = `Compare its digest, then 'stickpin approve ${data.bundleId}'.`;
  switch (data.kind) {
    case 'found':
      return [
        `${briefTitle(data.bundle)} waits for approval.`,
        next,
        `It is on ${briefName(data.medium)}.`,
        `It was signed by ${briefNames(data.signedBy, NOBODY)}.`,
      ];
    case 'found-unsigned':
      return [`A bundle on ${briefName(data.medium)} waits for approval.`, next, 'No trusted key signed it.'];
    case 'adopted':
      return [`${briefTitle(data.bundle)} waits for approval.`, next];
    default:
      return assertNever(data);
  }
}

/** Whole sentences about a reason, the most important one first: what, what to do, details. */
function briefReason(reason: Reason): readonly string[] {
  if ('message' in reason) return foreignSentences(reason.message);
  switch (reason.code) {
    case 'engine/no-base':
    case 'engine/cancelled':
    case 'engine/offline':
    case 'bundle/blob-missing':
    case 'engine/needs-copy':
    case 'engine/no-source':
    case 'media/looking':
    case 'media/reading':
    case 'media/peer-waited-for':
      return briefMedia(reason);
    case 'engine/image-missing':
    case 'engine/image-damaged':
    case 'engine/documents-missing':
    case 'runtime/pins-pending':
    case 'runtime/pins-ignored':
      return briefImages(reason);
    case 'engine/no-space':
    case 'runtime/policy':
    case 'runtime/version':
      return briefRuntime(reason);
    case 'engine/tag-contested':
    case 'engine/rolled-back':
      return briefRelease(reason);
    default:
      return briefRefusal(reason);
  }
}

function briefImages(reason: ImageReason): readonly string[] {
  const { bundle, total } = reason.data;
  const title = briefTitle(bundle);
  switch (reason.code) {
    case 'engine/image-missing': {
      const { missing, next } = reason.data;
      return [`${missing} of ${total} images of ${title} are missing.`, missingNext(next, title), SEE_LIST];
    }
    case 'engine/image-damaged': {
      const { damaged, reference, next, base } = reason.data;
      const what = `${damaged} of ${total} images of ${title} are damaged on this node.`;
      return [what, damageNextText(next, title, base), `The first is ${briefName(reference)}.`, SEE_LIST];
    }
    case 'engine/documents-missing': {
      const { lacking, reference } = reason.data;
      const what = `${lacking} of ${total} images of ${title} can't be pulled again: their manifest or config is lost.`;
      return [what, `Plug in the stick of ${title}.`, `The first is ${briefName(reference)}.`, SEE_LIST];
    }
    case 'runtime/pins-pending':
      return [`${reason.data.unpinned} of ${total} images of ${title} are present and not pinned yet.`];
    case 'runtime/pins-ignored': {
      const { unpinned, cause } = reason.data;
      const what = `${unpinned} of ${total} images of ${title} are not pinned.`;
      if (cause.kind === 'fault') return [what, ...foreignSentences(cause.fault.message), SEE_LIST];
      return [what, 'Look for another file that sets pinned_images and sorts after 99-stickpin.conf.', SEE_LIST];
    }
    default:
      return assertNever(reason);
  }
}

function missingNext(
  next: Extract<ImageReason, { code: 'engine/image-missing' }>['data']['next'],
  title: string,
): string {
  switch (next.kind) {
    case 'pull':
      return 'They are pulled again.';
    case 'look':
      return 'stickpin has just started and looks at the media.';
    case 'copy':
      return 'Copy the bundle to a stick again, and plug it in.';
    case 'plug-in':
      return next.base === undefined
        ? `Plug in the stick of ${title}.`
        : `Plug in the stick of ${title}, and the one with its base ${briefName(next.base)}.`;
    default:
      return assertNever(next);
  }
}

function briefRuntime(reason: RuntimeReason): readonly string[] {
  switch (reason.code) {
    case 'engine/no-space': {
      const { bundle, shortage } = reason.data;
      const { kind, path, needed, free, reserved } = shortage;
      const amount = (value: number) => (kind === 'inodes' ? `${value}` : formatBytes(value));
      const what = kind === 'inodes' ? 'inodes' : 'space';
      const usable = amount(Math.max(0, free - reserved));
      return [
        `Not enough ${what} for ${briefTitle(bundle)}: needs ${amount(needed)}, usable ${usable}.`,
        `Free space on ${briefName(path)}, or run 'stickpin unpin' for an old release.`,
        SEE_LIST,
      ];
    }
    case 'runtime/policy': {
      const { bundle, images, first } = reason.data;
      const what = `policy.json of this node refuses ${images} images of ${briefTitle(bundle)}.`;
      return [what, SEE_LIST, ...foreignSentences(first.message)];
    }
    case 'runtime/version': {
      const { runtime, needed } = reason.data;
      return [
        `${briefName(runtime)} is too old: stickpin needs ${needed} or newer.`,
        'Upgrade and restart it; stickpin continues automatically.',
        'Nothing is loaded, and pins stay as they are.',
      ];
    }
    default:
      return assertNever(reason);
  }
}

function briefRelease(reason: ReleaseReason): readonly string[] {
  switch (reason.code) {
    case 'engine/tag-contested': {
      const { bundle, tag, times } = reason.data;
      return [
        `A tag of ${briefTitle(bundle)} was taken away again ${times} times, so it is left alone.`,
        `${briefCommand('activate', bundle)} gives it again.`,
        `It is ${briefName(tag)}.`,
        'Find out what moves it.',
      ];
    }
    case 'engine/rolled-back':
      return [...rolledBackSentences(reason.data), SEE_LIST];
    default:
      return assertNever(reason);
  }
}

function rolledBackSentences({ recorded, open }: Extract<Reason, { code: 'engine/rolled-back' }>['data']) {
  if (open === undefined) return foreignSentences(recorded);
  return [`${briefTitle(open.from)} is being rolled back to ${briefTitle(open.to)}, which is not activated yet.`];
}

/**
 * The sentence of a reason in at most `maxLength` characters: all of `reasonText` where it fits,
 * else what is wrong, what to do, and details while there is room, each as a whole sentence.
 * `more`: as for {@link fitted}.
 */
export function reasonWithin(reason: Reason, maxLength: number = MAX_LINE_LENGTH, more?: string): string {
  const whole = oneLine(reasonText(reason));
  const isWhole = whole.length <= maxLength && !('data' in reason && hasLongName(reason.data));
  return isWhole ? whole : fitted(briefReason(reason), maxLength, more);
}

/**
 * A reason that speaks of the bundle by its title, with the digest in short added where that is not
 * enough.
 */
export function reasonAmong(reason: Reason, bundle: StoredBundle, bundles: Entries): string {
  if (!hasNamesake(bundle, bundles)) return reasonWithin(reason);
  const which = `This is bundle ${shortDigest(bundle.bundleId)}.`;
  return fitted([reasonWithin(reason, MAX_LINE_LENGTH - which.length - 2), which]);
}
