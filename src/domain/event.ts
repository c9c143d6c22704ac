import type { BundleId, Digest } from './digest.ts';

/** Kinds of messages that an operator sees; each has its own MESSAGE_ID and catalog entry. */
export type EventKind =
  | 'daemon-started'
  | 'medium-found'
  | 'medium-failed'
  | 'medium-gone'
  | 'bundle-verified'
  | 'bundle-rejected'
  | 'bundle-held'
  | 'preload-started'
  | 'image-pulled'
  | 'pull-failed'
  | 'blob-damaged'
  | 'bundle-ready'
  | 'bundle-activated'
  | 'activation-failed'
  | 'runtime-unreachable'
  | 'runtime-back'
  | 'effect-failed';

/** Something that happened, told in one sentence, for the journal and for the history. */
export interface News {
  readonly kind: EventKind;
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  readonly digest?: Digest;
}
