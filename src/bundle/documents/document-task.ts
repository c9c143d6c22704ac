import type { Contents, Payload } from '../../domain/model/bundle.ts';
import type { Disposition } from '../../platform/app-error.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import { checkContents, parseContents } from '../format/check-contents.ts';
import {
  type ImageConfig,
  type ImageIndex,
  type ImageManifest,
  parseConfig,
  parseIndex,
  parseLayoutIndex,
  parseManifest,
} from '../format/oci-schema.ts';

export interface DocumentName {
  /** The name of the document in errors: `manifest sha256:… of quay.io/…`. */
  readonly what: string;
  readonly code: BundleErrorCode;
}

/** Fit for structured clone. */
export type DocumentTask =
  | { readonly kind: 'contents'; readonly bytes: Uint8Array; readonly payload: Payload }
  | {
      readonly kind: 'layout-index' | 'index' | 'manifest' | 'config';
      readonly bytes: Uint8Array;
      readonly name: DocumentName;
    };

export type ParsedDocument = Contents | ImageIndex | ImageManifest | ImageConfig;

export function nameOf(task: DocumentTask): DocumentName {
  return task.kind === 'contents' ? { what: 'contents.json', code: 'bundle/contents' } : task.name;
}

/** The digest was checked before. @throws AppError the code of the name; `bundle/contents` */
export function parseDocument(task: DocumentTask): ParsedDocument {
  switch (task.kind) {
    case 'contents': {
      const contents = parseContents(task.bytes, task.payload.critical);
      checkContents(contents, task.payload);
      return contents;
    }
    case 'layout-index':
      return parseLayoutIndex(task.bytes, task.name.what, task.name.code);
    case 'index':
      return parseIndex(task.bytes, task.name.what, task.name.code);
    case 'manifest':
      return parseManifest(task.bytes, task.name.what, task.name.code);
    case 'config':
      return parseConfig(task.bytes, task.name.what, task.name.code);
  }
}

export type ToWorker = { readonly kind: 'parse'; readonly task: DocumentTask } | { readonly kind: 'next' };

/**
 * `head` has empty lists; `items` continue its list `member`. The worker waits for `next` after
 * each message, so that the main thread can do other work between them.
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
