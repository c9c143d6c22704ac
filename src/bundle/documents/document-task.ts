import type { Contents, Payload } from '../../domain/model/bundle.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import { checkContents } from '../format/check-contents.ts';
import { parseContents } from '../format/contents-schema.ts';
import {
  type ImageConfig,
  type ImageIndex,
  type ImageManifest,
  parseConfig,
  parseIndex,
  parseLayoutIndex,
  parseManifest,
} from '../format/oci-schema.ts';

/** How an error names a document of the image-spec. */
export interface DocumentName {
  /** Such as `manifest sha256:… of quay.io/…`. */
  readonly what: string;
  readonly code: BundleErrorCode;
}

/**
 * A JSON document of a bundle to parse and validate. It can be copied by structured clone.
 */
export type DocumentTask =
  | { readonly kind: 'contents'; readonly bytes: Uint8Array; readonly payload: Payload }
  | {
      readonly kind: 'layout-index' | 'index' | 'manifest' | 'config';
      readonly bytes: Uint8Array;
      readonly name: DocumentName;
    };

/** The result of a task. */
export type ParsedDocument = Contents | ImageIndex | ImageManifest | ImageConfig;

/** How an error names the document of a task. */
export function nameOf(task: DocumentTask): DocumentName {
  return task.kind === 'contents' ? { what: 'contents.json', code: 'bundle/contents' } : task.name;
}

/**
 * Parses and validates a document; `contents.json` must also agree with itself and its payload. The
 * digest was checked before.
 *
 * @throws AppError `reject`: the code of the name; `bundle/contents`
 */
export function parseDocument(task: DocumentTask): ParsedDocument {
  switch (task.kind) {
    case 'contents': {
      const contents = parseContents(task.bytes);
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
