import type { MessageKind } from '../platform/message-ids.ts';
import type { BundleId, Digest } from './digest.ts';

/** Something that happened, told in one sentence, for the journal and for the history. */
export interface News {
  /** Its MESSAGE_ID and catalog entry. */
  readonly kind: MessageKind;
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  readonly digest?: Digest;
}
