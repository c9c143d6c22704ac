import {
  array,
  check,
  type InferOutput,
  integer,
  minValue,
  number,
  object,
  optional,
  parse,
  pipe,
  string,
} from 'valibot';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { pullError } from '../cri/runtime-error.ts';

const INDEX_TYPES: readonly string[] = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
];

/** Media types that are asked for: OCI image-spec 1.1 and Docker's schema 2. */
export const MANIFEST_TYPES: readonly string[] = [
  ...INDEX_TYPES,
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

const sizeBytes = pipe(number(), integer(), minValue(0));
const descriptor = object({
  mediaType: string(),
  digest: pipe(string(), check(isDigest, 'not a SHA-256 digest')),
  size: sizeBytes,
});
const manifestSchema = object({ config: descriptor, layers: array(descriptor) });
const indexSchema = object({
  manifests: array(
    object({
      ...descriptor.entries,
      platform: optional(object({ os: string(), architecture: string(), variant: optional(string()) })),
    }),
  ),
});

/** A pointer to a blob with its size in bytes (image-spec, descriptor.md). */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly size: number;
}

/** GOOS and GOARCH of the images wanted out of an index. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
}

/** What a manifest or an index of manifests points to. */
export type ParsedManifest =
  | { readonly kind: 'manifest'; readonly config: Descriptor; readonly layers: readonly Descriptor[] }
  | { readonly kind: 'index'; readonly entries: readonly (Descriptor & { readonly platform: Platform | undefined })[] };

/**
 * Reads a manifest whose digest was checked already. `mediaType` decides which kind it is. @throws
 * AppError `runtime/pull-failed`
 */
export function parseManifest(mediaType: string, bytes: Buffer, what: string): ParsedManifest {
  try {
    const json: unknown = JSON.parse(bytes.toString());
    if (INDEX_TYPES.includes(mediaType)) {
      const { manifests } = parse(indexSchema, json);
      return {
        kind: 'index',
        entries: manifests.map((entry) => ({ ...toDescriptor(entry), platform: entry.platform })),
      };
    }
    const { config, layers } = parse(manifestSchema, json);
    return { kind: 'manifest', config: toDescriptor(config), layers: layers.map(toDescriptor) };
  } catch (error) {
    throw pullError('runtime/pull-failed', `${what} is no image manifest: ${reasonOf(error)}`, error);
  }
}

/** The first manifest of an index for the platform. @throws AppError `runtime/not-found` */
export function selectPlatform(index: ParsedManifest & { kind: 'index' }, wanted: Platform, what: string): Descriptor {
  const match = index.entries.find(
    ({ platform }) => platform?.os === wanted.os && platform.architecture === wanted.architecture,
  );
  if (match !== undefined) return { mediaType: match.mediaType, digest: match.digest, size: match.size };
  throw pullError('runtime/not-found', `${what} has no image for ${wanted.os}/${wanted.architecture}`);
}

function toDescriptor({ mediaType, digest, size }: InferOutput<typeof descriptor>): Descriptor {
  return { mediaType, digest: digest as Digest, size };
}
