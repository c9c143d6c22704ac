import type { MessageKind } from '../../../platform/message-ids.ts';

/**
 * The kind of message for a failed pull, by the code of its cause, so that its catalog entry says
 * what to do about this very cause.
 */
export function pullFailureKind(code: string): MessageKind {
  switch (code) {
    case 'media/blob-damaged':
    case 'media/blob-unreadable':
      return 'blobDamaged';
    case 'media/gone':
      return 'preloadPaused';
    case 'bundle/blob-missing':
      return 'blobMissing';
    case 'bundle/not-in-bundle':
      return 'notInBundle';
    case 'runtime/unreachable':
      return 'runtimeUnreachable';
    case 'runtime/no-space':
    case 'runtime/read-only':
      return 'diskFull';
    case 'runtime/policy':
      return 'policyRefused';
    case 'engine/stalled':
      return 'pullStalled';
    default:
      return 'pullFailed';
  }
}
