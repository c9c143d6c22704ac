import type { Disposition } from '../../platform/app-error.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import type { DocumentTask } from './document-task.ts';

/** A request to the worker: parse a document, or send the next part of the result. */
export type ToWorker = { readonly kind: 'parse'; readonly task: DocumentTask } | { readonly kind: 'next' };

/**
 * What the worker answers. `head` is the document with its own lists empty, `items` are further
 * elements of the list `member`; after each of these the worker waits for `next`, so that the main
 * thread receives one part at a time and does other work in between.
 */
export type FromWorker =
  | { readonly kind: 'head'; readonly head: Record<string, unknown> }
  | { readonly kind: 'items'; readonly member: string; readonly items: readonly unknown[] }
  | { readonly kind: 'done' }
  | {
      readonly kind: 'failed';
      readonly code: BundleErrorCode;
      readonly message: string;
      readonly disposition: Disposition;
    };
