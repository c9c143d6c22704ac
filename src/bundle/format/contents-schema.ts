import * as v from 'valibot';
import type { Contents } from '../../domain/model/bundle.ts';
import { limits } from '../limits.ts';
import { parseJson } from './json.ts';
import { count, digest, sizeUpTo } from './schema.ts';

const ATTACHED_TAG = /^sha256-[0-9a-f]{64}\.(?:sig|att|sbom)$/;
/** Of all manifests of an image. */
const LAYERS = limits.layersPerImage * limits.manifestsPerImage;
const COMPONENT = /^[a-z0-9][a-z0-9._-]*$/;

const word = v.pipe(v.string(), v.maxLength(limits.textLength, `must have at most ${limits.textLength} characters`));

const layer = v.strictObject({
  digest,
  sizeBytes: count,
  diffId: digest,
  uncompressedBytes: count,
  diskBytes: count,
  inodes: count,
  inBase: v.exactOptional(v.literal(true)),
});

const document = { digest, size: sizeUpTo(limits.manifestBytes) };

const attachedTag = v.strictObject({
  tag: v.pipe(v.string(), v.regex(ATTACHED_TAG, 'must be sha256-<64 hex digits>.sig, .att or .sbom')),
  ...document,
  mediaType: word,
  blobs: v.pipe(
    v.array(v.strictObject(document)),
    v.maxLength(limits.attachedBlobs, `must have at most ${limits.attachedBlobs} entries`),
  ),
});

const image = v.strictObject({
  reference: word,
  digest,
  mediaType: word,
  tags: v.optional(v.pipe(v.array(word), v.maxLength(limits.treeItems)), () => []),
  component: v.exactOptional(
    v.pipe(v.string(), v.regex(COMPONENT, 'must be a short name such as etcd'), v.maxBytes(limits.nameBytes)),
  ),
  pin: v.optional(v.boolean(), true),
  layers: v.pipe(v.array(count), v.maxLength(LAYERS, `must have at most ${LAYERS} layers`)),
  attached: v.exactOptional(
    v.pipe(v.array(attachedTag), v.maxLength(limits.attachedTags, `must have at most ${limits.attachedTags} entries`)),
  ),
});

/** How many layers and tags a bundle may have is checked by `checkContents()`. */
export const contentsSchema = v.strictObject({
  layers: v.pipe(v.array(layer), v.maxLength(limits.treeItems)),
  images: v.pipe(v.array(image), v.maxLength(limits.images, `must have at most ${limits.images} images`)),
});

/**
 * Parses `contents.json` and checks its form; {@link checkContents} checks its content.
 *
 * @param maxItems limit of members and elements; contents that were accepted and stored before need
 *   none.
 * @throws AppError `bundle/contents`
 */
export function parseContents(bytes: Uint8Array, maxItems: number = limits.treeItems): Contents {
  return parseJson(bytes, contentsSchema, 'contents.json', 'bundle/contents', maxItems);
}
