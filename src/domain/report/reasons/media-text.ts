import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes, formatCount, formatDuration } from '../../../platform/sizes.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { FilesystemRefusal, Medium, PeerState } from '../../model/medium.ts';
import type {
  Flaws,
  ImageCount,
  ImageReason,
  Interruption,
  MediaReason,
  RuntimeReason,
  ShortOf,
} from '../../model/reason.ts';
import { contentFaultText, damageNextText } from '../texts/release-text.ts';

export function mediaText(reason: MediaReason): string {
  switch (reason.code) {
    case 'engine/no-base':
      return baseText(reason.data);
    case 'engine/cancelled': {
      const { bundle, images } = reason.data;
      return `The preload of ${bundleTitle(bundle)} was cancelled (${progressOf(images)}). Plug its stick in again, or run 'stickpin rescan', to continue.`;
    }
    case 'engine/offline': {
      const { bundle, media } = reason.data;
      return `${bundleTitle(bundle)} on ${media.join(', ')} is an envelope without blobs, and preload.online is false: plug in the stick with its blobs, or set preload.online = true.`;
    }
    case 'bundle/blob-missing':
      return blobsMissingText(reason.data);
    case 'engine/needs-copy': {
      const { bundle, images, flaws } = reason.data;
      return `${bundleTitle(bundle)} needs an undamaged copy (${progressOf(images)} present): ${flawsText(flaws)}. ${HOW_TO_COPY} Or give it up: 'stickpin unpin ${bundleName(bundle)}'.`;
    }
    case 'engine/no-source': {
      const { bundle, images, how } = reason.data;
      return interruptionText(bundleTitle(bundle), progressOf(images), how);
    }
    case 'media/peer-waited-for': {
      const { bundle, images } = reason.data;
      return waitingForPeerText(bundleTitle(bundle), progressOf(images), reason.data);
    }
    case 'media/looking': {
      const { bundle, images } = reason.data;
      return `stickpin has just started and looks whether ${bundleTitle(bundle)} is plugged in (${progressOf(images)} present).`;
    }
    case 'media/reading': {
      const { bundle, images, medium } = reason.data;
      return `${medium} is read again; then ${bundleTitle(bundle)} continues (${progressOf(images)} present).`;
    }
    default:
      return assertNever(reason);
  }
}

/** @param title as `ocp 4.13.7` @param progress as `2/13 images` */
export function waitingForPeerText(
  title: string,
  progress: string,
  { peer, queue }: Pick<Extract<MediaReason, { code: 'media/peer-waited-for' }>['data'], 'peer' | 'queue'>,
): string {
  return `Waiting for ${peer} to give ${title}: ${placeText(queue)}. ${progress} are here.`;
}

export function waitingToLookText(peer: string, { queue }: Pick<PeerState, 'queue'>): string {
  return `Waiting for ${peer} to show its bundles: ${placeText(queue)}.`;
}

function placeText(queue: PeerState['queue']): string {
  if (queue === undefined) return 'it is asked again';
  const { place, waiting, waitMs, mostMs } = queue;
  const most = mostMs === undefined ? '' : `, at most about ${formatDuration(mostMs)}`;
  return `place ${place} of ${waiting}${waitMs === undefined ? most : `, about ${formatDuration(waitMs)}`}`;
}

const HOW_TO_COPY = "Copy the bundle to a stick again, check it with 'stickpin bundle verify --full', and plug it in.";

/** `blob sha256:5f0c… was damaged on sdb1 (and 2 more)`. */
export function flawsText({ digest, why, medium, more }: Flaws): string {
  const rest = more === 0 ? '' : ` (and ${more} more)`;
  return `blob ${shortDigest(digest)} ${FLAW[why]} on ${medium}${rest}`;
}

const FLAW: Readonly<Record<Flaws['why'], string>> = {
  damaged: 'was damaged',
  unreadable: 'could not be read',
  truncated: 'was cut short',
  absent: 'was missing',
};

/** How a preload lost its medium. @param title as `ocp 4.13.7` @param progress as `2/13 images` */
export function interruptionText(title: string, progress: string, how: Interruption): string {
  switch (how.kind) {
    case 'unmounted':
      return `${how.medium} was unmounted while preloading ${title} (${progress}). Plug it in again or run 'stickpin rescan' to continue.`;
    case 'taken-out':
      return `${title} was taken out of ${how.folder ?? 'the drop folder'} while preloading (${progress}). Put it back, or plug in its stick, to continue.`;
    case 'peer-away':
      return `${how.peer} stopped giving ${title} (${progress}). It continues when a node has it: plug its stick into any node.`;
    case 'unplugged':
      return `Stick removed while preloading ${title} (${progress}). Plug it in again to continue.`;
    default:
      return assertNever(how);
  }
}

export function unmountedText({ label }: Pick<Medium, 'label'>): string {
  return `${label} was unmounted; plug it in again or run 'stickpin rescan'`;
}

type NoBase = Extract<MediaReason, { code: 'engine/no-base' }>['data'];

function baseText({ bundle, layers, base, holders = [] }: NoBase): string {
  const digest = base.bundleId === undefined ? '' : shortDigest(base.bundleId);
  const name = base.name === undefined ? `bundle ${digest}` : `${base.name} (${digest})`;
  const next = `Plug in the stick with ${layersFrom(base, holders)}, or one with all of ${bundleTitle(bundle)}.`;
  return `${bundleTitle(bundle)} needs base ${name}, ${stateOf(base)}: it lacks ${formatCount(layers, 'layer')}. ${next}`;
}

function stateOf({ isAdopted, isRetired }: NoBase['base']): string {
  if (isRetired === true) return 'which was retired on this node';
  return isAdopted ? 'which is not complete on this node' : 'which this node has never had';
}

/** At most three names: any of them does. */
function layersFrom({ name }: NoBase['base'], holders: readonly string[]): string {
  if (holders.length === 0) return name ?? 'that bundle';
  const have = holders.length === 1 ? 'has' : 'have';
  return `${holders.slice(0, 3).join(' or ')}, which ${have} them`;
}

function blobsMissingText(data: Extract<MediaReason, { code: 'bundle/blob-missing' }>['data']): string {
  const title = bundleTitle(data.bundle);
  const present = `${progressOf(data.images)} present`;
  switch (data.kind) {
    case 'on-all-media': {
      const { first, media, blobs } = data;
      const which = 'digest' in first ? `${first.digest} (${first.why})` : first.reference;
      return `${title} on ${media.join(', ')} lacks ${formatCount(blobs, 'blob')}, first ${which}; ${present}. Plug in the stick that carries the rest, or copy the bundle again.`;
    }
    case 'rest': {
      const { layers, sizeBytes, first } = data;
      return `${title} still lacks ${formatCount(layers, 'layer')} (${formatBytes(sizeBytes)}), first ${first}; ${present}. Plug in the stick that carries the rest.`;
    }
    default:
      return assertNever(data);
  }
}

function progressOf({ present, total }: ImageCount): string {
  return `${present}/${total} images`;
}

type Missing = Extract<ImageReason, { code: 'engine/image-missing' }>['data'];
type Unpinned = Extract<ImageReason, { code: 'runtime/pins-pending' }>['data'];

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

export function runtimeText(reason: RuntimeReason): string {
  switch (reason.code) {
    case 'engine/no-space':
      return shortageText(bundleTitle(reason.data.bundle), reason.data.shortage);
    case 'runtime/policy': {
      const { bundle, images, first } = reason.data;
      return `policy.json of this node refuses ${images} images of ${bundleTitle(bundle)}; first: ${first.message}`;
    }
    case 'runtime/version': {
      const { runtime, needed } = reason.data;
      return `${runtime} is too old: it can't report which images are pinned, so nothing is loaded and pins stay as they are. stickpin needs ${needed} or newer. Upgrade and restart it; stickpin continues automatically.`;
    }
    default:
      return assertNever(reason);
  }
}

const OR_UNPIN = "or run 'stickpin unpin' for an old release";

function shortageText(title: string, { kind, path, needed, free, reserved }: ShortOf): string {
  const usable = Math.max(0, free - reserved);
  const reserve = (amount: string) => (reserved === 0 ? '' : ` (preload.min_free_percent reserves ${amount})`);
  const inBytes = `usable ${formatBytes(usable)}${reserve(formatBytes(reserved))}`;
  switch (kind) {
    case 'bytes':
      return `Not enough space for ${title} on ${path}: needs ${formatBytes(needed)}, ${inBytes}. Free space there, ${OR_UNPIN}`;
    case 'inodes':
      return `Not enough inodes for ${title} on ${path}: needs ${needed}, usable ${usable}${reserve(`${reserved}`)}. Remove files there, ${OR_UNPIN}`;
    case 'staging':
      return `Not enough space for ${title} on ${path}: the runtime stages ${formatBytes(needed)} there while it pulls, ${inBytes}. Free space there`;
    default:
      return assertNever(kind);
  }
}

/** Why a medium is not mounted, and what to do: a clause that follows the name of the medium. */
export function filesystemText({ kind, filesystem, allowed }: FilesystemRefusal): string {
  const advice = `copy the bundle to a medium with one of ${allowed.join(', ')}`;
  switch (kind) {
    case 'unknown':
      return `has the filesystem ${filesystem}, which stickpin does not mount: ${advice}`;
    case 'off': {
      const setting = `media.filesystems = [${[...allowed, filesystem].map((name) => `"${name}"`).join(', ')}]`;
      return `has the filesystem ${filesystem}, which is not mounted unless the settings say so: ${advice}, or set ${setting} in /etc/stickpin/stickpin.toml`;
    }
    default:
      return assertNever(kind);
  }
}
