import { resolve } from 'node:path/posix';
import * as v from 'valibot';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { type BundleErrorCode, bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { decodeJson, parseJson, validateJson } from './json.ts';

/** OCI image-spec 1.1 (media-types.md) and Docker's schema 2, which runtimes treat alike. */
export const mediaTypes = {
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociConfig: 'application/vnd.oci.image.config.v1+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerConfig: 'application/vnd.docker.container.image.v1+json',
} as const;

export const indexMediaTypes: ReadonlySet<string> = new Set([mediaTypes.ociIndex, mediaTypes.dockerList]);

export const manifestMediaTypes: ReadonlySet<string> = new Set([
  ...indexMediaTypes,
  mediaTypes.ociManifest,
  mediaTypes.dockerManifest,
]);

export const configMediaTypes: ReadonlySet<string> = new Set([mediaTypes.ociConfig, mediaTypes.dockerConfig]);
/** Docker before 1.10 wrote this type for a config. */
const OLD_CONFIG = 'application/octet-stream';
/** `application/x-gzip` and the like are wrong, and taken for layers of files by some runtimes. */
const FILES = /^application\/(?:vnd\.(?:oci\.image\.layer|docker\.image\.rootfs)\.|octet-stream$|x-(?:gzip|tar)$)/;

/** Whether a manifest is one of a container image: config and layers are those of one. */
export function isOfImage(config: string, layers: readonly Pick<Descriptor, 'mediaType'>[]): boolean {
  const hasFiles = layers.some(({ mediaType }) => FILES.test(mediaType));
  return configMediaTypes.has(config) ? hasFiles || layers.length === 0 : config === OLD_CONFIG && hasFiles;
}

const digest = v.custom<Digest>(
  (value) => typeof value === 'string' && isDigest(value),
  'must be sha256:<64 lower-case hex digits>',
);
const size = v.pipe(v.number(), v.safeInteger('must be an integer'), v.minValue(0, 'must not be negative'));
const word = v.pipe(v.string(), v.maxLength(limits.textLength, `must have at most ${limits.textLength} characters`));
function list<Item extends v.GenericSchema>(item: Item) {
  return v.pipe(v.array(item), v.maxLength(limits.treeItems, `must have at most ${limits.treeItems} entries`));
}
const descriptorFields = { mediaType: word, digest, size };
const descriptor = v.object(descriptorFields);

/** image-spec, annotations.md: what the name of an entry of a layout. */
const REF_NAME = 'org.opencontainers.image.ref.name';
/** It marks entries whose layers are packed with zstd (containers/image). */
const ZSTD = 'io.github.containers.compression.zstd';

// image-spec: implementations must ignore unknown properties; they are not kept either.
const indexEntry = v.object({
  ...descriptorFields,
  platform: v.exactOptional(v.object({ architecture: word, os: word, variant: v.exactOptional(word) })),
  annotations: v.exactOptional(v.object({ [REF_NAME]: v.exactOptional(word), [ZSTD]: v.exactOptional(word) })),
});
/** Programs disagree about a document that is manifest and index (CVE-2021-41190): refused. */
const absent = (what: string) => v.exactOptional(v.never(`must not be in ${what}, it makes the document ambiguous`));
function ownMediaType(isOwn: (mediaType: string) => boolean, what: string) {
  return v.exactOptional(v.pipe(word, v.check(isOwn, `must be that of ${what}, it makes the document ambiguous`)));
}
export const indexSchema = v.object({
  schemaVersion: v.literal(2),
  mediaType: ownMediaType((type) => !manifestMediaTypes.has(type) || indexMediaTypes.has(type), 'an index'),
  manifests: list(indexEntry),
  config: absent('an index'),
  layers: absent('an index'),
});
export const manifestSchema = v.object({
  schemaVersion: v.literal(2),
  mediaType: ownMediaType((type) => !indexMediaTypes.has(type), 'a manifest'),
  config: descriptor,
  layers: list(descriptor),
  manifests: absent('a manifest'),
});
/** Containers would get a copy of the whole image there, also those that only hold it (Docker). */
const hasNoRootVolume = (volumes: object) => !Object.keys(volumes).some((path) => resolve('/', path) === '/');
const hasShortNames = (labels: object) => Object.keys(labels).every((name) => name.length <= limits.labelNameLength);
function members(isGood: (of: object) => boolean, message: string) {
  return v.nullish(v.custom<object>((value) => typeof value === 'object' && value !== null && isGood(value), message));
}
/** The parts that containers inherit and that can harm a runtime. */
const inherited = v.object({
  User: v.nullish(
    v.pipe(v.string(), v.maxLength(limits.configUserLength, `must have at most ${limits.configUserLength} characters`)),
  ),
  Labels: members(hasShortNames, `must have names of at most ${limits.labelNameLength} characters`),
  Volumes: members(
    hasNoRootVolume,
    'must not name the root folder as a volume, since the engine would copy the whole image for each container',
  ),
});
export const configSchema = v.object({
  architecture: v.exactOptional(word),
  os: v.exactOptional(word),
  config: v.nullish(inherited),
  rootfs: v.object({ diff_ids: list(digest) }),
});

/** descriptor.md; `size` in bytes. */
export type Descriptor = v.InferOutput<typeof descriptor>;
export type IndexEntry = v.InferOutput<typeof indexEntry>;
/** image-index.md, or Docker's manifest list. */
export type ImageIndex = v.InferOutput<typeof indexSchema>;
/** manifest.md, or Docker's schema 2. */
export type ImageManifest = v.InferOutput<typeof manifestSchema>;
/** The used fields of an image config (config.md). */
export type ImageConfig = v.InferOutput<typeof configSchema>;

/** @throws AppError `code` (`reject`) that names `what` and the member */
export function parseIndex(bytes: Uint8Array, what: string, code: BundleErrorCode): ImageIndex {
  return parseJson(bytes, indexSchema, what, code);
}

/** The `index.json` of a bundle lists all images and tags. @throws as {@link parseIndex} */
export function parseLayoutIndex(bytes: Uint8Array, what: string, code: BundleErrorCode): ImageIndex {
  return parseJson(bytes, indexSchema, what, code, limits.treeItems);
}

const sourceIndex = v.object({
  schemaVersion: v.literal(2),
  manifests: list(v.looseObject({ digest: word })),
  config: absent('an index'),
  layers: absent('an index'),
});

export type SourceEntry =
  | { readonly kind: 'usable'; readonly entry: IndexEntry }
  | { readonly kind: 'other-algorithm'; readonly digest: string; readonly name?: string };

/** image-spec, descriptor.md, "Digests". */
const OTHER_ALGORITHM = /^(?!sha256:)[a-z0-9]+(?:[+._-][a-z0-9]+)*:[A-Za-z0-9=_-]+$/;

/** A source may have images that a bundle could not hold. @throws AppError `code` */
export function parseSourceIndex(bytes: Uint8Array, what: string, code: BundleErrorCode): SourceEntry[] {
  const { manifests } = parseJson(bytes, sourceIndex, what, code, limits.treeItems);
  return manifests.map((found, at): SourceEntry => {
    if (!OTHER_ALGORITHM.test(found.digest)) {
      return { kind: 'usable', entry: validateJson(found, indexEntry, `${what}: manifests.${at}`, code) };
    }
    const name = v.safeParse(indexEntry.entries.annotations, found.annotations);
    const refName = name.success ? name.output?.[REF_NAME] : undefined;
    return { kind: 'other-algorithm', digest: found.digest, ...(refName !== undefined && { name: refName }) };
  });
}

/** @throws AppError `code` (`reject`) that names `what` and the member */
export function parseManifest(bytes: Uint8Array, what: string, code: BundleErrorCode): ImageManifest {
  return parseJson(bytes, manifestSchema, what, code);
}

/** `mediaType`: the Content-Type with which it is sent. */
export type ImageDocument =
  | (ImageManifest & { readonly kind: 'manifest'; readonly mediaType: string })
  | (ImageIndex & { readonly kind: 'index'; readonly mediaType: string });

/**
 * Takes the `mediaType` of the descriptor or HTTP answer, else that of the document, else its
 * shape.
 * @throws AppError `code` that names `what` and the member
 */
export function parseImageDocument(
  bytes: Uint8Array,
  what: string,
  code: BundleErrorCode,
  mediaType?: string,
): ImageDocument {
  const value = decodeJson(bytes, what, code);
  const type = mediaType ?? typeOf(value);
  return indexMediaTypes.has(type)
    ? { ...validateJson(value, indexSchema, what, code), kind: 'index', mediaType: type }
    : { ...validateJson(value, manifestSchema, what, code), kind: 'manifest', mediaType: type };
}

function typeOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return mediaTypes.ociManifest;
  if ('mediaType' in value && typeof value.mediaType === 'string') return value.mediaType;
  return 'manifests' in value ? mediaTypes.ociIndex : mediaTypes.ociManifest;
}

/** @throws AppError `code` (`reject`) that names `what` and the member */
export function parseConfig(bytes: Uint8Array, what: string, code: BundleErrorCode): ImageConfig {
  const most = limits.configBytes;
  if (bytes.length > most) throw bundleError(code, `${what} has ${bytes.length} bytes, and ${most} are allowed`);
  return parseJson(bytes, configSchema, what, code);
}

/** Variants that count as none, in containerd or in CRI-O on each processor. */
export const BASELINE: Readonly<Record<string, string>> = { amd64: 'v1', arm64: 'v8' };

/**
 * The entries of an index that runtimes choose for `linux` on `architecture` (a GOARCH), each once;
 * the first is their choice on any processor. They differ:
 * - containerd takes the first entry of the best variant that it knows the processor to have;
 * - CRI-O takes the first without a variant (on arm64 one for `v8` before), of these one for zstd
 *   first;
 * - both take an entry without a platform if no other fits.
 *
 * So the first of each variant counts, and the first for zstd. An entry may be an index, of which
 * containerd chooses in the same way, and which CRI-O does not pull (`runtime-rules.ts`).
 */
export function entriesForPlatform(of: ImageIndex, architecture: string): IndexEntry[] {
  type Fitting = { readonly entry: IndexEntry; readonly variant: string | undefined; readonly rank: number };
  const fitting = of.manifests.flatMap((entry): Fitting[] => {
    const { platform } = entry;
    if (platform === undefined) return [{ entry, variant: undefined, rank: 1 }];
    if (platform.os !== 'linux' || platform.architecture !== architecture) return [];
    const { variant = '' } = platform;
    return [{ entry, variant, rank: variant === '' || variant === BASELINE[architecture] ? 0 : 2 }];
  });
  const hasBaseline = fitting.some(({ rank }) => rank === 0);
  const groups = new Map<string | undefined, IndexEntry[]>();
  for (const { entry, variant, rank } of fitting.sort((a, b) => a.rank - b.rank)) {
    if (rank !== 1 || !hasBaseline) groups.set(variant, [...(groups.get(variant) ?? []), entry]);
  }
  const isZstd = ({ annotations }: IndexEntry) => annotations?.[ZSTD] === 'true';
  const chosen = [...groups.values()].flatMap((group) => [...group.slice(0, 1), ...group.filter(isZstd).slice(0, 1)]);
  return [...new Map(chosen.map((entry) => [entry.digest, entry])).values()];
}

/**
 * The manifests that runtimes choose from an index and from indexes in it, in this order.
 * @param readIndex gives the index that is an entry
 * @throws AppError `bundle/source` when there is none, or there are too many manifests or indexes
 */
export async function manifestsForPlatform(
  of: ImageIndex,
  architecture: string,
  what: string,
  readIndex: (entry: IndexEntry) => Promise<ImageIndex>,
  depth = 1,
): Promise<IndexEntry[]> {
  const platform = `linux/${architecture}`;
  const { indexDepth, manifestsPerImage: most } = limits;
  const found: IndexEntry[] = [];
  for (const entry of entriesForPlatform(of, architecture)) {
    const isIndex = indexMediaTypes.has(entry.mediaType);
    if (isIndex && depth === indexDepth)
      throw bundleError(
        'bundle/source',
        `${what} has more than ${indexDepth} indexes below each other for ${platform}`,
      );
    if (!isIndex) found.push(entry);
    else found.push(...(await manifestsForPlatform(await readIndex(entry), architecture, what, readIndex, depth + 1)));
    if (found.length > most)
      throw bundleError(
        'bundle/source',
        `${what} has more than ${most} images for ${platform}, and no more are allowed`,
      );
  }
  if (found.length > 0) return found;
  const platforms = of.manifests.map((entry) => `${entry.platform?.os}/${entry.platform?.architecture}`).join(', ');
  throw bundleError('bundle/source', `${what} has no image for ${platform}, only for ${platforms}`);
}
