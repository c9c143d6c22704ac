import { assertNever } from '../../../platform/app-error.ts';
import type { Reason } from '../../model/reason.ts';
import { adoptionText } from './adoption-text.ts';
import { imageText } from './image-text.ts';
import { mediaText } from './media-text.ts';
import { releaseText } from './release-text.ts';
import { runtimeText } from './runtime-text.ts';
import { trustText } from './trust-text.ts';

/** A reason as people and programs get it. `message`: a full sentence, mostly without full stop. */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
}

/** The sentence of a reason. One that an adapter gave has its own. */
export function reasonText(reason: Reason): string {
  if ('message' in reason) return reason.message;
  switch (reason.code) {
    case 'bundle/arch':
    case 'bundle/sequence':
    case 'bundle/version':
    case 'bundle/base':
    case 'bundle/expired':
    case 'bundle/from-the-future':
      return adoptionText(reason);
    case 'trust/approval':
    case 'trust/rejected':
    case 'trust/blind':
    case 'trust/threshold':
    case 'trust/key-revoked':
    case 'trust/role':
      return trustText(reason);
    case 'engine/no-base':
    case 'engine/cancelled':
    case 'engine/offline':
    case 'bundle/blob-missing':
    case 'engine/needs-copy':
    case 'engine/no-source':
    case 'media/looking':
    case 'media/reading':
    case 'media/peer-waited-for':
      return mediaText(reason);
    case 'engine/image-missing':
    case 'engine/image-damaged':
    case 'engine/documents-missing':
    case 'runtime/pins-pending':
    case 'runtime/pins-ignored':
      return imageText(reason);
    case 'engine/no-space':
    case 'runtime/policy':
    case 'runtime/version':
      return runtimeText(reason);
    case 'engine/tag-contested':
    case 'engine/rolled-back':
      return releaseText(reason);
    default:
      return assertNever(reason);
  }
}

/** A reason with its sentence in place of its data. */
export function shownReason(reason: Reason): ShownReason {
  return { code: reason.code, message: reasonText(reason) };
}
