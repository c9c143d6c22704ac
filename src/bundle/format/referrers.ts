import * as v from 'valibot';
import { type Digest, digestFromHex, isDigest } from '../../domain/model/digest.ts';
import { defined } from '../../platform/defined.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import { parseJson } from './json.ts';
import { type Descriptor, type ImageDocument, mediaTypes, parseImageDocument } from './oci-schema.ts';

/** An entry of a referrers list (distribution-spec 1.1). */
export interface Referral {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly size: number;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const reference = v.looseObject({
  mediaType: v.string(),
  digest: v.custom<Digest>((value) => typeof value === 'string' && isDigest(value)),
  size: v.pipe(v.number(), v.safeInteger()),
});
const referring = v.looseObject({
  artifactType: v.exactOptional(v.string()),
  subject: v.exactOptional(reference),
  annotations: v.exactOptional(v.record(v.string(), v.string())),
});

/** A manifest or index; `subject` is what it refers to (image-spec, manifest.md). */
export type ReferringDocument = ImageDocument & v.InferOutput<typeof referring>;

/** @throws AppError `code` (`reject`) */
export function parseReferring(bytes: Uint8Array, what: string, code: BundleErrorCode): ReferringDocument {
  return { ...parseJson(bytes, referring, what, code), ...parseImageDocument(bytes, what, code) };
}

/** distribution-spec 1.1, "Listing Referrers": the default `artifactType` is that of the config. */
export function referralOf({ mediaType, digest, size }: Descriptor, found: ReferringDocument): Referral {
  const artifactType = found.artifactType || (found.kind === 'manifest' && found.config.mediaType) || undefined;
  return defined({ mediaType, digest, size, artifactType, annotations: found.annotations });
}

export function referrersIndex(referrers: readonly Referral[], artifactType?: string) {
  const manifests = referrers.filter((one) => artifactType === undefined || one.artifactType === artifactType);
  return { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests };
}

const REFERRERS_TAG = /^sha256-([0-9a-f]{64})$/;

/**
 * distribution-spec 1.1, "Referrers Tag Schema": the tag of an index of what refers to `subject`.
 */
export function referrersTagOf(subject: Digest): string {
  return subject.replace(':', '-');
}

/** Returns undefined for any other tag. */
export function subjectOfTag(tag: string): Digest | undefined {
  const [, hex] = REFERRERS_TAG.exec(tag) ?? [];
  return hex === undefined ? undefined : digestFromHex(hex);
}

const listing = v.looseObject({ manifests: v.array(v.unknown()) });
const listed = v.looseObject({
  mediaType: v.string(),
  digest: v.custom<Digest>((value) => typeof value === 'string' && isDigest(value)),
  size: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  artifactType: v.exactOptional(v.string()),
  annotations: v.exactOptional(v.nullable(v.record(v.string(), v.string()))),
});

/** The well-formed entries of an index of referrers. @throws AppError `code` (`reject`) */
export function parseReferrers(bytes: Uint8Array, what: string, code: BundleErrorCode): Referral[] {
  return parseJson(bytes, listing, what, code).manifests.flatMap((one) => {
    if (!v.is(listed, one)) return [];
    const { mediaType, digest, size, artifactType, annotations } = one;
    return defined({ mediaType, digest, size, artifactType, annotations: annotations ?? undefined });
  });
}
