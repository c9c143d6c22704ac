import type { PullQueue } from '../preload/pull-queue.ts';
import type { DocumentLookTest } from '../release/documents/document-look.ts';
import type { PullTest } from '../release/pulls/pull-check.ts';
import type { Effect } from '../state/effect.ts';
import type { CheckDue } from './content.ts';

/** What {@link decide} returns. */
export interface Decision {
  readonly effects: readonly Effect[];
  /**
   * Pulls that may follow those of `effects` without another decision; undefined when none may run
   * now.
   */
  readonly pullQueue?: PullQueue;
  /** A pull that tests whether pulls are answered, to be started when all effects are done. */
  readonly pullTest?: PullTest;
  /** A check of the content of images, to be started when all effects are done. */
  readonly contentCheck?: CheckDue;
  /** A look at the documents of releases, to be started when all effects are done. */
  readonly documentLook?: DocumentLookTest;
  /** Pulls begin once the pins and mirrors of this decision are in place. */
  readonly pullsFollow?: true;
  /**
   * When the next round is due at the latest by what was decided, in milliseconds since the epoch.
   */
  readonly wakeAt: number | undefined;
}
