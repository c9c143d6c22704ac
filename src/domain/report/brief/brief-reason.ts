import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import type { ImageReason, Reason, ReleaseReason, RuntimeReason } from '../../model/reason.ts';
import { damageNextText } from '../texts/content-text.ts';
import { briefMedia } from './brief-media.ts';
import { briefCommand, briefName, briefTitle } from './brief-name.ts';
import { briefRefusal } from './brief-refusal.ts';
import { foreignSentences, SEE_LIST } from './fitted.ts';

/** Whole sentences about a reason, the most important one first: what, what to do, details. */
export function briefReason(reason: Reason): readonly string[] {
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
