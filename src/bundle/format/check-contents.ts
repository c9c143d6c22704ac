import * as v from 'valibot';
import type { Artifact, Contents, Image, Layer, Payload } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { isCanonicalReference, parseReference } from '../../domain/model/reference.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { decodeJson, validateJson } from './json.ts';
import { indexMediaTypes, manifestMediaTypes } from './oci-schema.ts';
import { subjectOfTag } from './referrers.ts';
import { count, digest, payloadMembers, sizeUpTo, text, withIgnored } from './schema.ts';
import { type KnownMembers, optionalMembers, takeUnknown } from './unknown-members.ts';

/**
 * Checks `contents.json` against the limits of the format, itself and the payload.
 *
 * @throws AppError `bundle/contents` that names the image or layer
 */
export function checkContents(contents: Contents, payload: Payload): void {
  checkCounts(contents);
  checkLayers(contents.layers, payload);
  const seen = {
    references: new Set<string>(),
    tags: new Map<string, Digest>(),
    attached: new Map<string, Digest>(),
    components: new Set<string>(),
  };
  for (const image of contents.images) {
    checkReference(image);
    checkTags(image, seen.tags);
    checkAttached(image, seen.attached);
    once(seen.references, image.reference, 'reference');
    if (image.component !== undefined) once(seen.components, image.component, 'component');
    const outside = image.layers.find((at) => at >= contents.layers.length);
    if (outside !== undefined) throw wrong(`${image.reference}: there is no layer ${outside}`);
  }
  for (const artifact of contents.artifacts ?? []) checkArtifact(artifact, contents, seen);
  checkTotals(contents, payload);
}

/** It is copied, not pulled: all its blobs travel with it. */
function checkArtifact(artifact: Artifact, { layers, images }: Contents, seen: Names): void {
  const { reference, mediaType } = artifact;
  checkReference(artifact);
  if (images.length === 0) throw wrong(`${reference}: an artifact belongs to a release with at least one image`);
  if (indexMediaTypes.has(mediaType)) throw wrong(`${reference}: an artifact has a manifest, and this is an index`);
  checkTags(artifact, seen.tags);
  once(seen.references, reference, 'reference');
  for (const at of artifact.layers) {
    const layer = layers[at];
    if (layer === undefined) throw wrong(`${reference}: there is no layer ${at}`);
    if (layer.inBase) throw wrong(`${reference}: layer ${layer.digest} of an artifact can't come from a base`);
  }
}

type Named = Pick<Image, 'reference' | 'digest' | 'mediaType' | 'tags'>;

interface Names {
  readonly references: Set<string>;
  readonly tags: Map<string, Digest>;
}

/** A node reads all of this in each round. */
function checkCounts({ layers, images, artifacts = [] }: Contents): void {
  const sumOf = <One>(all: readonly One[], countOf: (one: One) => number) =>
    all.reduce((total, one) => total + countOf(one), 0);
  const named = [...images, ...artifacts];
  const attached = (image: Image) => (image.attached ?? []).reduce((total, { blobs }) => total + blobs.length, 0);
  const counts = [
    ['layers', layers.length, limits.layers],
    ['layers of images', sumOf(named, (one) => one.layers.length), limits.layerUses],
    ['tags', sumOf(named, (one) => one.tags.length), limits.tags],
    ['attached blobs', sumOf(images, attached), limits.attachedBlobsInAll],
  ] as const;
  for (const [what, count, most] of counts) {
    if (count > most) {
      throw wrong(`it has ${count} ${what}, and ${most} are allowed; spread the images over several bundles`);
    }
  }
}

function checkLayers(layers: readonly Layer[], { update }: Payload): void {
  const digests = new Set<string>();
  for (const layer of layers) {
    once(digests, layer.digest, 'layer');
    if (layer.inBase && update?.base === undefined) {
      throw wrong(`layer ${layer.digest} must come from a base, but the payload names no base`);
    }
  }
}

function checkReference(image: Named): void {
  if (!isCanonicalReference(image.reference) || !image.reference.endsWith(`@${image.digest}`)) {
    throw wrong(
      `${printable(image.reference)}: reference must be registry/repository@${image.digest}, its host in lower case`,
    );
  }
  if (parseReference(image.reference).tag !== undefined)
    throw wrong(`${image.reference}: reference must not carry a tag`);
  if (!manifestMediaTypes.has(image.mediaType)) {
    throw wrong(
      `${image.reference}: mediaType ${printable(image.mediaType)} is neither an image manifest nor an image index`,
    );
  }
}

function checkTags(image: Named, seen: Map<string, Digest>): void {
  const { repository } = parseReference(image.reference);
  for (const text of image.tags) {
    const reference = isCanonicalReference(text) ? parseReference(text) : undefined;
    if (reference?.tag === undefined || reference.digest !== undefined || reference.repository !== repository) {
      throw wrong(`${image.reference}: tag ${printable(text)} must be ${repository}:<tag>`);
    }
    if (seen.has(text)) throw wrong(`tag ${text} is listed twice`);
    seen.set(text, image.digest);
  }
}

/** Images of a repository may share attached tags, but each tag names one manifest. */
function checkAttached(image: Image, seen: Map<string, Digest>): void {
  const { repository } = parseReference(image.reference);
  const attachedTags = new Set<string>();
  for (const { tag, digest, mediaType } of image.attached ?? []) {
    once(attachedTags, tag, `${image.reference}: attached tag`);
    const isList = subjectOfTag(tag) !== undefined;
    if (indexMediaTypes.has(mediaType) !== isList || !manifestMediaTypes.has(mediaType)) {
      const kind = isList ? 'index' : 'image manifest';
      throw wrong(`${image.reference}: mediaType ${printable(mediaType)} of ${tag} is not an ${kind}`);
    }
    const name = `${repository}:${tag}`;
    if ((seen.get(name) ?? digest) !== digest) throw wrong(`attached tag ${name} is listed with two digests`);
    seen.set(name, digest);
  }
}

function checkTotals({ layers, images }: Contents, { totals }: Payload): void {
  const sums = {
    images: images.length,
    diskBytes: layers.reduce((sum, layer) => sum + layer.diskBytes, 0),
    inodes: layers.reduce((sum, layer) => sum + layer.inodes, 0),
  };
  for (const field of ['images', 'diskBytes', 'inodes'] as const) {
    if (sums[field] !== totals[field]) {
      throw wrong(`the payload says totals.${field} ${totals[field]}, contents.json makes ${sums[field]}`);
    }
  }
}

function once(seen: Set<string>, value: string, what: string): void {
  if (seen.has(value)) throw wrong(`${what} ${value} is listed twice`);
  seen.add(value);
}

function printable(text: string): string {
  return JSON.stringify(text.length > 300 ? `${text.slice(0, 300)}…` : text);
}

function wrong(message: string) {
  return bundleError('bundle/contents', `contents.json: ${message}`);
}

const ATTACHED_TAG = /^sha256-[0-9a-f]{64}(?:\.(?:sig|att|sbom))?$/;
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
  tag: v.pipe(v.string(), v.regex(ATTACHED_TAG, 'must be sha256-<64 hex digits>, also with .sig, .att or .sbom')),
  ...document,
  mediaType: word,
  blobs: v.pipe(
    v.array(v.strictObject(document)),
    v.maxLength(limits.attachedBlobs, `must have at most ${limits.attachedBlobs} entries`),
  ),
});

const named = {
  reference: word,
  digest,
  mediaType: word,
  tags: v.optional(v.pipe(v.array(word), v.maxLength(limits.treeItems)), () => []),
};

const image = v.strictObject({
  ...named,
  component: v.exactOptional(
    v.pipe(v.string(), v.regex(COMPONENT, 'must be a short name such as etcd'), v.maxBytes(limits.nameBytes)),
  ),
  pin: v.optional(v.boolean(), true),
  layers: v.pipe(v.array(count), v.maxLength(LAYERS, `must have at most ${LAYERS} layers`)),
  attached: v.exactOptional(
    v.pipe(v.array(attachedTag), v.maxLength(limits.attachedTags, `must have at most ${limits.attachedTags} entries`)),
  ),
});

const artifact = v.strictObject({
  ...named,
  type: text,
  config: v.strictObject(document),
  layers: v.pipe(
    v.array(count),
    v.maxLength(limits.artifactLayers, `must have at most ${limits.artifactLayers} layers`),
  ),
});

export const contentsSchema = v.strictObject({
  layers: v.pipe(v.array(layer), v.maxLength(limits.treeItems)),
  images: v.pipe(v.array(image), v.maxLength(limits.images, `must have at most ${limits.images} images`)),
  artifacts: v.exactOptional(
    v.pipe(v.array(artifact), v.maxLength(limits.artifacts, `must have at most ${limits.artifacts} artifacts`)),
  ),
});

const KNOWN: KnownMembers = {
  entries: contentsSchema.entries,
  lists: { layers: layer, images: image, artifacts: artifact },
};

/** Only people read them. */
const IGNORABLE: readonly string[] = ['warnings', 'annotations', 'critical'];

/** The optional members of a new bundle that no node may ignore. */
export function criticalMembers(payload: Payload, contents: Contents): string[] {
  const found = [...optionalMembers(payload, payloadMembers), ...optionalMembers(contents, KNOWN, 'contents.')];
  return found.filter((member) => !IGNORABLE.includes(member));
}

/** The form only. `critical`: that of the payload. @throws AppError `bundle/contents` */
export function parseContents(bytes: Uint8Array, critical?: Payload['critical']): Contents {
  const value = decodeJson(bytes, 'contents.json', 'bundle/contents', limits.treeItems);
  const ignored = takeUnknown(value, KNOWN, critical, 'contents.');
  return withIgnored(validateJson(value, contentsSchema, 'contents.json', 'bundle/contents', critical), ignored);
}

/** Reads the stored contents of an adopted bundle, as `parseStoredPayload()` its payload. */
export function parseStoredContents(bytes: Uint8Array, critical?: Payload['critical']): Contents {
  const decoded = decodeJson(bytes, 'contents.json', 'bundle/contents', Number.POSITIVE_INFINITY);
  const { ignored = [], ...value } = (decoded ?? {}) as Contents;
  const unknown = takeUnknown(value, KNOWN, critical, 'contents.');
  return withIgnored(validateJson(value, contentsSchema, 'contents.json', 'bundle/contents'), [...ignored, ...unknown]);
}
