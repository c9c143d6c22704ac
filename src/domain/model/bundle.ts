import type { BundleId, Digest } from './digest.ts';
import type { ReleaseOrder } from './roll-out-order.ts';

/** Bundle format 1, `name`. */
export const STREAM_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Digest and size in bytes (OCI image-spec, descriptor.md). */
export interface ContentPointer {
  readonly digest: Digest;
  readonly size: number;
}

export interface BundleTotals {
  readonly images: number;
  readonly blobs: number;
  readonly sizeBytes: number;
  readonly diskBytes: number;
  readonly inodes: number;
}

export type Schedule = 'immediate' | 'manual';

export interface Advisory {
  readonly version: string;
  readonly deadend?: boolean;
  readonly barrier?: boolean;
  readonly reason: string;
}

/** Bundle format, "update". */
export interface UpdateRules {
  readonly from?: string;
  readonly barrier?: { readonly reason: string };
  readonly deadend?: { readonly reason: string };
  /** `startPercentage`: a fraction, 0 to 1. */
  readonly rollout?: { readonly start?: string; readonly durationMinutes?: number; readonly startPercentage?: number };
  readonly endOfLife?: string;
  /** The order in which the nodes of a cluster activate the release. */
  readonly order?: ReleaseOrder;
  readonly base?: BundleId;
}

/**
 * This attachment has the signatures of an OpenShift release image: a ConfigMap in JSON, as the
 * cluster version operator reads it.
 */
export const RELEASE_SIGNATURES = {
  name: 'release-signatures.json',
  mediaType: 'application/vnd.stickpin.release-signatures.v1+json',
} as const;

export interface Attachment extends ContentPointer {
  readonly name: string;
  readonly mediaType: string;
}

/** Bundle format, `trust`. */
export interface KeyChange {
  readonly role?: string;
  /** Public keys in PEM. */
  readonly keys?: readonly string[];
  /** Keyed by key id. Only people read the names. */
  readonly names?: Readonly<Record<string, string>>;
  /** Key ids. */
  readonly revoked?: readonly string[];
}

/** The signed payload of a bundle (bundle format, version 1). Times are RFC 3339. */
export interface Payload {
  readonly schemaVersion: 1;
  readonly name: string;
  readonly version: string;
  /** Default: the scheme of the first release of the stream that names one. */
  readonly versionScheme?: 'semver' | 'three-tag';
  readonly arch: string;
  readonly sequence: number;
  readonly created: string;
  readonly expires?: string;
  readonly index: ContentPointer;
  readonly contents: ContentPointer;
  readonly totals: BundleTotals;
  readonly update?: UpdateRules;
  readonly schedule?: Schedule;
  /** Nodes never retire the release automatically, as with `lifecycle.protect`. */
  readonly keep?: 'life';
  readonly advisories?: readonly Advisory[];
  readonly trust?: KeyChange;
  readonly attachments?: readonly Attachment[];
  readonly warnings?: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
  /** Members that no node may ignore, by path (bundle format, "Members of later versions"). */
  readonly critical?: readonly string[];
  /** No member of the format: the paths of those that this node did not know and ignored. */
  readonly ignored?: readonly string[];
}

/** `diskBytes` counts the unpacked files, each rounded up to 4 KiB. */
export interface Layer {
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly diffId: Digest;
  readonly uncompressedBytes: number;
  readonly diskBytes: number;
  readonly inodes: number;
  readonly inBase?: true;
}

/** Names the base for people, such as `ocp@4.13.6`, since `update.base` is a digest. */
export const BASE_ANNOTATION = 'io.stickpin.base';

/** Names for people who signed images, as the factory verified them. `.1`, `.2` … follow. */
export const VERIFIED_ANNOTATION = 'io.stickpin.verified';

/** Returns a line for each signer, from the annotations of {@link VERIFIED_ANNOTATION}. */
export function verifiedLines({ annotations = {} }: Payload): string[] {
  return Object.entries(annotations).flatMap(([name, line]) =>
    name.startsWith(`${VERIFIED_ANNOTATION}.`) ? line : [],
  );
}

export function baseNeededBy(
  { layers }: Image,
  { contents, payload }: { readonly contents: Contents; readonly payload: Payload },
): string | undefined {
  const isLeftOut = layers.some((index) => contents.layers[index]?.inBase === true);
  return isLeftOut ? payload.annotations?.[BASE_ANNOTATION] : undefined;
}

/**
 * Small documents about an image: a manifest such as cosign's `sha256-<hex>.sig`, or an index of
 * all that refer to it, `sha256-<hex>` (distribution-spec 1.1, "Referrers Tag Schema").
 */
export interface AttachedTag extends ContentPointer {
  readonly tag: string;
  readonly mediaType: string;
  readonly blobs: readonly ContentPointer[];
}

/** `layers` are indexes into {@link Contents.layers} for the platform of the node. */
export interface Image {
  /** The fully qualified name, by digest: `quay.io/coreos/etcd@sha256:…`. */
  readonly reference: string;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Each tag is `registry/repo:tag`. */
  readonly tags: readonly string[];
  readonly component?: string;
  readonly pin: boolean;
  readonly layers: readonly number[];
  readonly attached?: readonly AttachedTag[];
}

/**
 * Anything with a manifest that is no image, such as a chart. The node keeps its blobs, and no
 * runtime unpacks them. `config` belongs to its manifest. `layers` are the same as in an image.
 */
export interface Artifact extends Pick<Image, 'reference' | 'digest' | 'mediaType' | 'tags' | 'layers'> {
  readonly config: ContentPointer;
  /** `artifactType` of the manifest, else the media type of its config. */
  readonly type: string;
}

/** `contents.json` lists every layer once, and the images in load order. */
export interface Contents {
  readonly layers: readonly Layer[];
  readonly images: readonly Image[];
  readonly artifacts?: readonly Artifact[];
  /** As in {@link Payload}. */
  readonly ignored?: readonly string[];
}

/** Returns the paths of members that this node did not know and ignored. */
export function ignoredMembers({ payload, contents }: Pick<VerifiedBundle, 'payload' | 'contents'>): readonly string[] {
  return [...(payload.ignored ?? []), ...(contents.ignored ?? [])];
}

/** Returns images and artifacts. */
export function allIn({ images, artifacts = [] }: Contents): readonly (Image | Artifact)[] {
  return [...images, ...artifacts];
}

/** Returns layers of artifacts, each once. */
export function artifactLayers({ layers, artifacts = [] }: Contents): readonly Layer[] {
  const indexes = new Set(artifacts.flatMap((artifact) => artifact.layers));
  return layers.filter((_layer, index) => indexes.has(index));
}

/** Its signature and Merkle tree are verified down to `contents.json` and `index.json`. */
export interface VerifiedBundle {
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
  /** Names of the trusted keys: file names without `.pub`, and `<role>/<key>`. May be empty. */
  readonly signedBy: readonly string[];
  /** Sorted. */
  readonly signerKeyIds: readonly string[];
  /** These keys count only in a role. Sorted by key id. */
  readonly signerRoles?: readonly SignerRole[];
}

export interface SignerRole {
  readonly keyId: string;
  readonly role: string;
}

export function bundleName(bundle: { readonly name: string; readonly version: string }): string {
  return `${bundle.name}@${bundle.version}`;
}

/** STATUS lines show it as `ocp 4.13.7`. */
export function bundleTitle(bundle: { readonly name: string; readonly version: string }): string {
  return `${bundle.name} ${bundle.version}`;
}

/**
 * Without images it is a release by its attached files, unless it carries advisories or keys, as a
 * notice.
 */
export function hasFilesAlone({
  attachments = [],
  advisories = [],
  trust,
}: Partial<Pick<Payload, 'attachments' | 'advisories' | 'trust'>>): boolean {
  return attachments.length > 0 && advisories.length === 0 && trust === undefined;
}
