import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes, formatCount, formatDuration } from '../../../platform/sizes.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { FilesystemRefusal } from '../../model/medium.ts';
import type { DamageOutcome, Flaws, ImageCount, ImageReason, MediaReason, QueuePlace } from '../../model/reason.ts';
import type { Does } from '../actions.ts';
import type { Entries } from '../entries.ts';
import type { Names } from '../names.ts';
import { contentFaultText, damageNextText } from '../texts/release-text.ts';

type DataOf<Code> = Extract<ImageReason | MediaReason, { readonly code: Code }>['data'];

const ANOTHER_COPY = 'Plug in another copy of it';
const MAKE_COPY = "Copy the bundle to a stick again, and check it with 'stickpin bundle verify --full'";

/** Reasons why images of a release are not loaded, not whole or not pinned. */
export const IMAGE_REASONS: Entries<ImageReason | MediaReason> = {
  'engine/no-base': {
    short: 'M-13',
    means: 'The bundle has only changes, and the release below them is missing',

    does: 'plug-in',
    says: ({ bundle, layers, base, holders = [] }, { title, name, list }) => {
      const digest = base.bundleId === undefined ? '' : shortDigest(base.bundleId);
      const known = base.name === undefined ? `bundle ${digest}` : name(base.name);
      const sticks = list(holders.slice(0, 3), base.name ?? '', ' or ');
      return {
        what: `${title(bundle)} needs base ${known}, which ${stateOf(base)}`,
        details: [
          `It lacks ${formatCount(layers, 'layer')}`,
          ...(base.name === undefined || digest === '' ? [] : [`The base is bundle ${digest}`]),
        ],
        next:
          base.name === undefined
            ? `Plug in a stick with all of ${title(bundle)}, or one with that base`
            : `Plug in the stick with ${sticks}, or one with all of ${title(bundle)}`,
      };
    },
    remedy: () => 'plug in the stick of its base, or one with the whole release',
  },
  'engine/cancelled': {
    short: 'M-15',
    means: 'A person cancelled the loading',
    event: 'preloadCancelled',

    does: 'decided',
    says: ({ bundle, images }, { title }) => ({
      what: `The preload of ${title(bundle)} was cancelled (${progress(images)})`,
      next: 'To continue, plug its stick in again',
      run: "'stickpin rescan' continues from a stick that is plugged in",
    }),
    remedy: () => "plug its stick in again, or run 'stickpin rescan'",
    isOwn: true,
  },
  'engine/offline': {
    short: 'M-14',
    means: 'The bundle has no images, and registries are not allowed',

    does: 'plug-in',
    says: ({ bundle, media: labels }, { title, media }) => ({
      what: `${title(bundle)} on ${media(labels, 'a medium')} has no blobs, and preload.online is false`,
      next: 'Plug in the stick with its blobs',
      run: 'With a network, set preload.online = true',
    }),
    remedy: () => 'plug in the stick that has its blobs, or set preload.online = true',
  },
  'bundle/blob-missing': {
    short: 'M-11',
    means: 'Files of the release are on another stick',
    event: 'blobMissing',

    does: 'plug-in-other',
    says: (data, { title, media: mediaNames }) => {
      const present = `${progress(data.images)} are present`;
      switch (data.kind) {
        case 'on-all-media': {
          const { bundle, blobs, media, first } = data;
          const on = mediaNames(media, 'its medium');
          return {
            ...('digest' in first
              ? {
                  what: `${title(bundle)} lacks ${formatCount(blobs, 'blob')} on ${on}`,
                  details: [`The first blob is ${first.digest} (${first.why})`, present],
                }
              : {
                  what: `Can't pull an image of ${title(bundle)} from ${on}`,
                  details: [`The image is ${first.reference}`, present],
                }),
            next: 'Plug in the stick that carries the rest, or copy the bundle again',
          };
        }
        case 'rest':
          return {
            what: `${title(data.bundle)} still lacks ${formatCount(data.layers, 'layer')} (${formatBytes(data.sizeBytes)})`,
            details: [`The first layer is ${data.first}`, present],
            next: 'Plug in the stick that carries the rest',
          };
        default:
          return assertNever(data);
      }
    },
    remedy: () => 'plug in the stick that carries the rest, or copy the bundle again',
  },
  'engine/needs-copy': {
    short: 'M-12',
    means: 'All copies of the release that were seen are damaged',

    does: 'plug-in-other',
    says: ({ bundle, images, flaws }, { title, medium }) => ({
      what: `${title(bundle)} needs an undamaged copy`,
      details: [flawText(flaws, medium), `${progress(images)} are present`],
      next: ANOTHER_COPY,
      run: MAKE_COPY,
      also: [`'stickpin unpin ${bundleName(bundle)}' gives it up`],
    }),
    remedy: () =>
      "copy the bundle to a stick again, best another one, check it with 'stickpin bundle verify --full', and plug it in",
  },
  'engine/no-source': {
    short: 'M-10',
    means: 'The stick was removed before all images were loaded',
    event: 'preloadPaused',

    does: 'plug-in-again',
    says: ({ bundle, images, how }, { title, name, medium }) => {
      const what = `${title(bundle)} (${progress(images)})`;
      switch (how.kind) {
        case 'unmounted':
          return {
            what: `${medium(how.medium)} was unmounted while preloading ${what}`,
            next: 'Plug it in again to continue',
            isNextSaid: true,
            run: "'stickpin rescan' mounts it again",
          };
        case 'taken-out':
          return {
            what: `${title(bundle)} was taken out of ${name(how.folder ?? 'the drop folder')} while preloading (${progress(images)})`,
            next: 'Put it back, or plug in its stick, to continue',
            does: 'plug-in',
          };
        case 'peer-away':
          return {
            what: `${name(how.peer)} stopped giving ${what}`,
            next: 'It continues when a node has it again; if none has it, plug its stick into any node',
            does: 'wait',
          };
        case 'unplugged':
          return {
            what: `Stick removed while preloading ${what}`,
            next: 'Plug it in again to continue',
            isNextSaid: true,
          };
        default:
          return assertNever(how);
      }
    },
    remedy: () =>
      "plug its stick in again, put its folder back, or run 'stickpin rescan'; from other nodes it continues automatically",
  },
  'media/peer-waited-for': {
    short: 'F-06',
    means: 'Another node gives the release later',

    says: ({ bundle, images, peer, queue }, { title, name }) => ({
      what: `Waiting for ${name(peer)} to give ${title(bundle)}: ${placeText(queue)}`,
      details: [`${progress(images)} are present`],
    }),
  },
  'media/looking': {
    short: 'M-21',
    means: 'stickpin has just started and reads the sticks',
    event: 'reported-elsewhere',

    says: ({ bundle, images }, { title }) => ({
      what: `stickpin has just started and checks whether ${title(bundle)} is plugged in`,
      details: [`${progress(images)} are present`],
    }),
  },
  'media/reading': {
    short: 'M-22',
    means: 'The stick is read again',
    event: 'reported-elsewhere',

    says: ({ bundle, images, medium: label }, { title, medium }) => ({
      what: `${medium(label)} is read again; then ${title(bundle)} continues (${progress(images)} present)`,
    }),
  },
  'engine/image-missing': {
    short: 'M-16',
    means: 'Images of the release are gone from the node',
    event: 'reported-elsewhere',

    does: 'plug-in',
    says: ({ bundle, missing, total, isMixed, named, isList, next }, { title, name, medium }) => {
      const more = missing - named.length;
      return {
        what: `${countText(missing, total, title(bundle), isMixed)} missing`,
        details: [
          missing === 1
            ? `The missing one is ${named[0]}`
            : isList
              ? `The missing ones are ${named.join(', ')}${more === 0 ? '' : ` and ${more} more`}`
              : `The first missing one is ${named[0]}`,
          ...(next.kind === 'copy' ? [flawText(next.flaws, medium)] : []),
        ],
        next: missingNext(next, title(bundle), missing === 1, name),
        run: next.kind === 'copy' ? MAKE_COPY : undefined,
        does: MISSING_DOES[next.kind],
      };
    },
    remedy: (release) => `plug in the stick of ${release}, unless the images are pulled again already`,
  },
  'engine/image-damaged': {
    short: 'M-17',
    means: 'Images of the release are damaged on the node',

    does: 'plug-in',
    says: ({ bundle, damaged, total, reference, fault, next, base }, { title }) => ({
      what: `${countText(damaged, total, title(bundle))} damaged on this node`,
      details: [`${damaged === 1 ? 'It' : 'The first damaged one'} is ${reference}: ${contentFaultText(fault)}`],
      [DAMAGE_ENDED_WITH_SHELL.has(next) ? 'run' : 'next']: damageNextText(next, {
        title: title(bundle),
        base,
        subject: damaged === 1 ? 'It' : 'The first one',
      }),
      does: DAMAGE_DOES[next],
    }),
    remedy: (release) =>
      `plug in the stick of ${release}, and see 'stickpin verify-images ${release}'; if damage comes again, check the disk`,
  },
  'engine/documents-missing': {
    short: 'M-18',
    means: 'Manifests of the release are lost on the node',

    does: 'plug-in',
    says: ({ bundle, lacking, total, isMixed, reference }, { title }) => ({
      what: `${lacking} of ${total} ${kindText(isMixed)} of ${title(bundle)} can't be pulled again without a network`,
      details: [
        `${lacking === 1 ? 'Its' : 'Their'} manifest or config is lost on this node`,
        `${lacking === 1 ? 'It' : 'The first'} is ${reference}`,
      ],
      next: `Plug in the stick of ${title(bundle)}`,
    }),
    remedy: (release) =>
      `plug in the stick of ${release}; until then, pods that always pull their image do not start without a network`,
  },
  'runtime/sync-pending': {
    short: 'R-26',
    means: 'Images are still being written to the disk',
    event: 'reported-elsewhere',

    says: ({ bundle, images }, { title }) => ({
      what: `${formatCount(images, 'image')} of ${title(bundle)} ${images === 1 ? 'is' : 'are'} still being written to the disk`,
      next: 'Do not switch the node off',
      details: ['A power cut could lose what is only in memory'],
    }),
  },
  'engine/unchecked': {
    short: 'R-27',
    means: 'Images are still being checked after a power cut',
    event: 'reported-elsewhere',

    says: ({ bundle, images }, { title }) => ({
      what: `${formatCount(images, 'image')} of ${title(bundle)} ${images === 1 ? 'is' : 'are'} still being checked, since the node was not shut down`,
      details: ['A power cut may have damaged what was loaded before it'],
    }),
  },
  'runtime/pins-pending': {
    short: 'R-12',
    means: 'Images are not pinned yet',
    event: 'reported-elsewhere',

    says: ({ bundle, unpinned, total }, { title }) => ({
      what: `${countText(unpinned, total, title(bundle))} present and not pinned yet`,
    }),
  },
  'runtime/pins-ignored': {
    short: 'R-13',
    means: 'The runtime does not pin images',
    event: 'pinsNotTaken',

    says: ({ bundle, unpinned, total, cause }, { title }) => {
      const what = `${countText(unpinned, total, title(bundle))} present and not pinned`;
      if (cause.kind === 'fault') return { what, details: [cause.fault.message] };
      const them = unpinned === 1 ? 'it' : 'them';
      return {
        what,
        details: [
          `The runtime does not report ${them} as pinned after ${cause.attempts} tries`,
          `The first image is ${cause.first}`,
        ],
        next: 'Find another file of CRI-O that sets pinned_images after 99-stickpin.conf',
        also: ["The runtime's own journal may name it"],
      };
    },
    remedy: () =>
      "with CRI-O, find the other file that sets pinned_images and sorts after 99-stickpin.conf; 'sudo stickpin doctor' or the journal of the runtime names it",
  },
};

function progress({ present, total, artifacts }: ImageCount): string {
  const beside = artifacts === undefined ? '' : `, ${artifacts.present}/${artifacts.total} artifacts`;
  return `${present}/${total} images${beside}`;
}

function stateOf({ isAdopted, isRetired }: DataOf<'engine/no-base'>['base']): string {
  if (isRetired === true) return 'was retired on this node';
  return isAdopted ? 'is not complete on this node' : 'this node has never had';
}

/** Returns a clause. */
export function placeText(queue: QueuePlace | undefined): string {
  if (queue === undefined) return 'the request is repeated';
  const { place, waiting, waitMs, mostMs } = queue;
  if (place === 0 && waitMs !== undefined) return `in about ${formatDuration(waitMs)}`;
  const most = mostMs === undefined ? '' : `, at most about ${formatDuration(mostMs)}`;
  return `place ${place} of ${waiting}${waitMs === undefined ? most : `, about ${formatDuration(waitMs)}`}`;
}

const FLAW: Readonly<Record<Flaws['why'], string>> = {
  damaged: 'was damaged',
  unreadable: 'could not be read',
  truncated: 'was cut short',
  absent: 'was missing',
};

function flawText({ digest, why, medium: label, more }: Flaws, medium: Names['medium']): string {
  return `Blob ${shortDigest(digest)} ${FLAW[why]} on ${medium(label)}${more === 0 ? '' : ` (and ${more} more)`}`;
}

function countText(count: number, total: number, title: string, isMixed?: boolean): string {
  return `${count} of ${total} ${kindText(isMixed)} of ${title} ${count === 1 ? 'is' : 'are'}`;
}

export function kindText(isMixed = false): string {
  return isMixed ? 'images and artifacts' : 'images';
}

const MISSING_DOES: Readonly<Record<DataOf<'engine/image-missing'>['next']['kind'], Does>> = {
  pull: 'wait',
  look: 'wait',
  copy: 'plug-in-other',
  'plug-in': 'plug-in',
};

/** A command ends these. */
const DAMAGE_ENDED_WITH_SHELL: ReadonlySet<DamageOutcome> = new Set(['cancelled', 'give-up']);

const DAMAGE_DOES: Readonly<Record<DamageOutcome, Does>> = {
  heal: 'wait',
  'plug-in': 'plug-in',
  cancelled: 'plug-in-again',
  'in-use': 'call-support',
  shared: 'call-support',
  look: 'wait',
  'give-up': 'call-support',
};

function missingNext(
  next: DataOf<'engine/image-missing'>['next'],
  title: string,
  isOne: boolean,
  name: Names['name'],
): string {
  switch (next.kind) {
    case 'pull':
      return isOne ? 'It is pulled again' : 'They are pulled again';
    case 'look':
      return 'stickpin has just started and reads the media';
    case 'copy':
      return ANOTHER_COPY;
    case 'plug-in':
      return `Plug in the stick of ${title}${next.base === undefined ? '' : `, and the one with its base ${name(next.base)}`}`;
    default:
      return assertNever(next);
  }
}

/** Returns why a medium is not mounted, and the remedy, as a clause after the medium's name. */
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
