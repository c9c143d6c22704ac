import type { Digest } from '../model/digest.ts';

/** What the last look at the documents of kept releases has shown. */
export interface DocumentLook {
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  /** Which releases it was about, as one text: see `documentLookDue`. */
  readonly releases: string;
  /** Which media it could take lost documents from, as one text. */
  readonly media: string;
  /** Documents that are on the node's own disk and whole. */
  readonly kept: ReadonlySet<Digest>;
  /** References of images whose manifest or config is neither there nor anywhere at hand. */
  readonly lacking: ReadonlySet<string>;
  /** How many looks in a row have found some lacking. */
  readonly lackingLooks: number;
}

/** What the engine remembers of such looks since its start. */
export interface DocumentChecks {
  readonly isRunning: boolean;
  readonly last: DocumentLook | undefined;
}
