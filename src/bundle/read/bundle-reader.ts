import * as v from 'valibot';
import type { Digest } from '../../domain/model/digest.ts';
import type { Allocate } from '../../platform/files/file-access.ts';
import { bundleError } from '../bundle-error.ts';
import { parseJson } from '../format/json.ts';
import { limits } from '../limits.ts';

/** Files that are no blobs. `contents.json` is one only in a bundle without layers. */
export type BundleFile = 'bundle.dsse.json' | 'index.json' | 'contents.json' | 'oci-layout';

interface BlobPlace {
  /** The path is set even if the file does not exist. */
  readonly file: string;
  readonly startByte: number;
  readonly sizeBytes: number | undefined;
}

/** No file stays open between calls, except during {@link BundleReader.hold}. */
export interface BundleReader {
  /** A path or an address, for messages. */
  readonly path: string;
  /** Stays open while `run` works. @throws as `run`; `bundle/link`, `media/read`, `media/gone` */
  hold<T>(run: () => Promise<T>): Promise<T>;
  /**
   * @throws AppError `bundle/absent`, `bundle/link` when it is not a regular file, `bundle/digest`
   *   when it is larger than `maxBytes`, `media/read`, `media/gone`
   */
  readFile(name: BundleFile, maxBytes: number, signal: AbortSignal): Promise<Buffer>;
  /** The size in bytes, undefined if absent. @throws AppError `media/read`, `media/gone` */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /**
   * The bytes from `startByte` in chunks of at most 1 MiB, unchecked. An abort closes the file at
   * once.
   *
   * @param allocate gives the buffer of a chunk; default a new one for each
   * @throws AppError `media/gone` (`wait`) the medium or the blob is missing; `media/read`
   *   (`retry`) a read failed
   */
  read(digest: Digest, startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
}

export interface FileBundleReader extends BundleReader {
  /** Callers open the file themselves. @throws AppError `media/read`, `media/gone` */
  placeOf(digest: Digest, signal: AbortSignal): Promise<BlobPlace>;
}

/** image-spec, image-layout.md: readers accept any 1.x; only 1.0.0 exists. */
const layoutFile = v.looseObject({ imageLayoutVersion: v.string() });

/**
 * The file is not signed, and nodes don't need it: only `create` and `verify` check it.
 * @throws AppError `bundle/absent`, `bundle/layout`; `media/read`, `media/gone`
 */
export async function checkLayoutFile(reader: BundleReader, signal: AbortSignal): Promise<void> {
  const bytes = await reader.readFile('oci-layout', limits.layoutBytes, signal);
  const { imageLayoutVersion } = parseJson(bytes, layoutFile, 'oci-layout', 'bundle/layout');
  if (/^1\.\d{1,9}\.\d{1,9}$/.test(imageLayoutVersion)) return;
  const found = JSON.stringify(imageLayoutVersion.slice(0, 40));
  throw bundleError('bundle/layout', `oci-layout: imageLayoutVersion ${found} is not known; it must be "1.0.0"`);
}
