import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Attachment } from '../../../domain/model/bundle.ts';
import { hexOf } from '../../../domain/model/digest.ts';
import { digestOf } from '../../../platform/digest.ts';
import { writeNewFile } from '../../../platform/files/durable-file.ts';
import { bundleError } from '../../bundle-error.ts';
import { isPlainFileName } from '../../format/schema.ts';
import { limits } from '../../limits.ts';
import { sourceError } from '../images/layout-source.ts';

/** A file that is to travel with a bundle. `name` is what it will be called on the node. */
export interface AttachmentRequest {
  readonly path: string;
  readonly name: string;
  readonly mediaType: string;
}

const DEFAULT_MEDIA_TYPE = 'application/octet-stream';
/**
 * RFC 6838, with the top-level types that are registered, so that a path with a colon is seldom
 * taken for one.
 */
const WITH_MEDIA_TYPE =
  /^(.+):((?:application|audio|font|image|message|model|multipart|text|video)\/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})$/s;

/** Reads the argument of `--attach`: `FILE[:MEDIATYPE]`, by default `application/octet-stream`. */
export function parseAttachmentRequest(text: string): AttachmentRequest {
  const [, path = text, mediaType = DEFAULT_MEDIA_TYPE] = WITH_MEDIA_TYPE.exec(text) ?? [];
  return { path, name: basename(path), mediaType };
}

/**
 * Looks whether the files may be called on a node as they are called here, each by another name.
 *
 * @throws AppError `bundle/option` (`reject`) that names the files.
 */
export function checkAttachmentNames(requests: readonly AttachmentRequest[]): void {
  const paths = new Map<string, string>();
  for (const { path, name } of requests) {
    if (!isPlainFileName(name)) {
      throw bundleError(
        'bundle/option',
        `attachment ${path}: on a node it would be called ${JSON.stringify(name)}, which is no plain file name (A-Z a-z 0-9 . _ -, beginning with a letter or digit): rename it`,
      );
    }
    // Regardless of case, as the format has it.
    const other = paths.get(name.toLowerCase());
    if (other !== undefined) {
      throw bundleError(
        'bundle/option',
        `attachments ${other} and ${path} would both be called ${name} on a node, and must have distinct names: rename one`,
      );
    }
    paths.set(name.toLowerCase(), path);
  }
}

/**
 * Looks whether all files are there and small enough, before anything is copied.
 *
 * @throws AppError `bundle/source` (`reject`) that names the file.
 */
export async function checkAttachments(requests: readonly AttachmentRequest[]): Promise<void> {
  for (const { path } of requests) {
    try {
      const found = await stat(path);
      if (!found.isFile()) throw bundleError('bundle/source', `attachment ${path} is no file`);
      checkSize(path, found.size);
    } catch (cause) {
      throw sourceError(path, cause);
    }
  }
}

/**
 * Writes files as blobs into the folder `blobs`, each content once.
 *
 * @throws AppError `bundle/source` (`reject`); system errors of the target as they are.
 */
export async function writeAttachments(
  blobs: string,
  requests: readonly AttachmentRequest[],
  signal: AbortSignal,
): Promise<Attachment[]> {
  const written: Attachment[] = [];
  for (const { path, name, mediaType } of requests) {
    const bytes = await readFile(path, { signal }).catch((cause: unknown) => {
      signal.throwIfAborted();
      throw sourceError(path, cause);
    });
    checkSize(path, bytes.length);
    const digest = digestOf(bytes);
    const target = join(blobs, hexOf(digest));
    if (!(await isThere(target))) await writeNewFile(target, bytes);
    written.push({ name, mediaType, digest, size: bytes.length });
  }
  return written;
}

function checkSize(path: string, sizeBytes: number): void {
  if (sizeBytes <= limits.attachmentBytes) return;
  throw bundleError(
    'bundle/source',
    `attachment ${path} has ${sizeBytes} bytes, and ${limits.attachmentBytes} are allowed: large files travel better in an image`,
  );
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
