import type { MessageKind } from '../../platform/message-ids.ts';
import type { BundleId, Digest } from './digest.ts';

/** Something that happened, told in one sentence, for the journal and for the history. */
export interface Event {
  /** Its MESSAGE_ID and catalog entry. */
  readonly kind: MessageKind;
  /** `debug`: for the history; the journal has it only while `log.level` asks for it. */
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  /** As `EventRow.by`. Default `daemon`. */
  readonly by?: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  /** Of the image, or of the blob where the event is about one. */
  readonly digest?: Digest;
  /** The file of that blob on the medium, relative to its root. */
  readonly file?: string;
  /** The code of the reason, as `status --json` has it. */
  readonly code?: string;
  /** Reference of the image that the event is about. */
  readonly image?: string;
}
