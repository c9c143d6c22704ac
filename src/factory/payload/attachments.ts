import { createHash, randomBytes } from 'node:crypto';
import { rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { isPlainFileName, parseAdvisories, parseOrder } from '../../bundle/format/schema.ts';
import { limits } from '../../bundle/limits.ts';
import type { Advisory, Attachment } from '../../domain/model/bundle.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import type { ReleaseOrder } from '../../domain/model/roll-out-order.ts';
import { succeeds } from '../../platform/async/concurrency.ts';
import { fillTreeFile } from '../../platform/files/durable-file.ts';
import { readOptionFile } from '../images/images-file.ts';
import { readSource, sourceError } from '../images/layout-source.ts';
import { checkBlobSize, type FileSizeRules } from '../layers/packed-file.ts';
import { countBytes, type ProgressListener } from '../progress.ts';

/** `name`: on the node. */
export interface AttachmentRequest {
  readonly path: string;
  readonly name: string;
  readonly mediaType: string;
}

const DEFAULT_MEDIA_TYPE = 'application/octet-stream';
/** RFC 6838, with the registered top-level types: a path with a colon is rarely taken for one. */
const WITH_MEDIA_TYPE =
  /^(.+):((?:application|audio|font|image|message|model|multipart|text|video)\/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})$/s;

/** Reads the argument of `--attach`: `FILE[:MEDIATYPE]`, by default `application/octet-stream`. */
export function parseAttachmentRequest(text: string): AttachmentRequest {
  const [, path = text, mediaType = DEFAULT_MEDIA_TYPE] = WITH_MEDIA_TYPE.exec(text) ?? [];
  return { path, name: basename(path), mediaType };
}

/** Names must be allowed on a node and distinct. @throws AppError `bundle/option` (`reject`) */
export function checkAttachmentNames(requests: readonly AttachmentRequest[]): void {
  const paths = new Map<string, string>();
  for (const { path, name } of requests) {
    if (!isPlainFileName(name)) {
      const message = `attachment ${path}: its name on a node would be ${JSON.stringify(name)}, which is not a plain file name (A-Z a-z 0-9 . _ -, beginning with a letter or digit): rename it`;
      throw bundleError('bundle/option', message);
    }
    // The format requires a comparison without case.
    const other = paths.get(name.toLowerCase());
    if (other !== undefined) {
      const message = `attachments ${other} and ${path} would both have the name ${name} on a node: rename one`;
      throw bundleError('bundle/option', message);
    }
    paths.set(name.toLowerCase(), path);
  }
}

/** @returns their total size in bytes @throws AppError `bundle/source` that names the file */
export async function checkAttachments(requests: readonly AttachmentRequest[], rules: FileSizeRules): Promise<number> {
  let sumBytes = 0;
  for (const { path } of requests) {
    try {
      const found = await stat(path);
      if (!found.isFile()) throw bundleError('bundle/source', `attachment ${path} is not a file`);
      checkBlobSize(`attachment ${path}`, found.size, rules);
      sumBytes += found.size;
    } catch (cause) {
      throw sourceError(path, cause);
    }
  }
  return sumBytes;
}

/** Each content once. @throws AppError `bundle/source`; system errors of the target */
export async function writeAttachments(
  blobs: string,
  requests: readonly AttachmentRequest[],
  {
    totalBytes,
    onProgress,
    ...rules
  }: FileSizeRules & {
    readonly totalBytes: number;
    readonly onProgress: ProgressListener;
  },
  signal: AbortSignal,
): Promise<Attachment[]> {
  const onBytes = countBytes('copy', totalBytes, onProgress);
  const written: Attachment[] = [];
  for (const { path, name, mediaType } of requests) {
    const { digest, sizeBytes } = await copyIn(path, blobs, onBytes, signal);
    // The file may have grown since it was checked.
    checkBlobSize(`attachment ${path}`, sizeBytes, rules);
    written.push({ name, mediaType, digest, size: sizeBytes });
  }
  return written;
}

/** The digest is known at the end, so the copy is renamed then. */
async function copyIn(
  path: string,
  blobs: string,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<{ readonly digest: Digest; readonly sizeBytes: number }> {
  const staged = join(blobs, `.attachment-${randomBytes(4).toString('hex')}`);
  const hash = createHash('sha256');
  let sizeBytes = 0;
  await fillTreeFile(staged, async (target) => {
    for await (const chunk of readSource({ path, what: path }, signal)) {
      hash.update(chunk);
      sizeBytes += chunk.length;
      await target.writeFile(chunk);
      onBytes(chunk.length);
    }
  });
  const digest = digestFromHex(hash.digest('hex'));
  const target = join(blobs, hexOf(digest));
  if (await succeeds(stat(target))) await rm(staged);
  else await rename(staged, target);
  return { digest, sizeBytes };
}

/**
 * Files with `{version, deadend? barrier?, reason}` or a list of them. Neither withdraws an earlier
 * advisory. @throws AppError `bundle/option` with file and member; `bundle/source`
 */
export async function readAdvisories(paths: readonly string[], signal: AbortSignal): Promise<Advisory[]> {
  const all = new Map<string, Advisory>();
  for (const path of paths) {
    for (const advisory of parseAdvisories(await readOptionFile(path, 'advisory', limits.payloadBytes, signal), path)) {
      const { version, deadend, barrier } = advisory;
      if (deadend && barrier) {
        throw bundleError('bundle/option', `${path}: ${version} is both a dead end and a barrier; keep one of them`);
      }
      if (all.has(version))
        throw bundleError('bundle/option', `${path}: there is an advisory about ${version} already`);
      all.set(version, advisory);
    }
  }
  return [...all.values()];
}

/** @throws AppError `bundle/option`, `bundle/source` */
export async function readOrder(path: string | undefined, signal: AbortSignal): Promise<ReleaseOrder | undefined> {
  return path === undefined
    ? undefined
    : parseOrder(await readOptionFile(path, 'order', limits.payloadBytes, signal), path);
}
