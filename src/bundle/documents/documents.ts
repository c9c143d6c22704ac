import type { Contents, Payload } from '../../domain/model/bundle.ts';
import type { ImageConfig, ImageIndex, ImageManifest } from '../format/oci-schema.ts';
import { type DocumentName, type DocumentTask, type ParsedDocument, parseDocument } from './document-task.ts';

/**
 * Parses and validates the documents of bundles, whose digests were checked before. It owns the
 * bytes from the call on.
 *
 * Its methods throw an AppError (`reject`) that names the document and what is wrong, and the
 * signal's reason at once after an abort.
 */
export interface Documents {
  contents(bytes: Buffer, payload: Payload, signal: AbortSignal): Promise<Contents>;
  /** The `index.json` of a bundle. */
  layoutIndex(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageIndex>;
  /** An index over the manifests of one image. */
  index(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageIndex>;
  manifest(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageManifest>;
  config(bytes: Buffer, name: DocumentName, signal: AbortSignal): Promise<ImageConfig>;
}

/** {@link Documents} made from one function that parses any document. */
export function documentsBy(parse: (task: DocumentTask, signal: AbortSignal) => Promise<ParsedDocument>): Documents {
  return {
    contents: async (bytes, payload, signal) => (await parse({ kind: 'contents', bytes, payload }, signal)) as Contents,
    layoutIndex: async (bytes, name, signal) =>
      (await parse({ kind: 'layout-index', bytes, name }, signal)) as ImageIndex,
    index: async (bytes, name, signal) => (await parse({ kind: 'index', bytes, name }, signal)) as ImageIndex,
    manifest: async (bytes, name, signal) => (await parse({ kind: 'manifest', bytes, name }, signal)) as ImageManifest,
    config: async (bytes, name, signal) => (await parse({ kind: 'config', bytes, name }, signal)) as ImageConfig,
  };
}

/** Parses in the calling thread and blocks it: for the command line. */
export const documentsHere: Documents = documentsBy(async (task, signal) => {
  signal.throwIfAborted();
  return parseDocument(task);
});
