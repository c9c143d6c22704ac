import { join } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseManifestDocuments, parseManifests } from '../../bundle/documents/kubernetes-manifest.ts';
import { criticalMembers } from '../../bundle/format/check-contents.ts';
import { formatEnvelope } from '../../bundle/format/dsse.ts';
import { parseJson } from '../../bundle/format/json.ts';
import { componentNamed, type ImageRequest, type ImageSource } from '../../bundle/image-request.ts';
import { limits } from '../../bundle/limits.ts';
import { bundleIdOf } from '../../bundle/verify/verify-envelope.ts';
import type { Attachment, BundleTotals, Contents, Payload } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { formatReference, parseReference, type Reference, repositoryOf } from '../../domain/model/reference.ts';
import { isImagePlaceholder, type ManifestImage } from '../../domain/release/manifest-images.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { writeTreeFile } from '../../platform/files/durable-file.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import type { CreateOptions } from '../create-options.ts';
import { MANIFEST, MAX_MANIFEST_BYTES, type Manifests, NAMES_IMAGE } from '../images/manifests.ts';
import { type LayoutRequest, type Plan, planImages } from '../images/plan-images.ts';
import { readFolderInLayers } from '../layers/layer-folder.ts';
import { jsonBytes, type WrittenTree } from '../write-bundle.ts';
import { parseReleaseMetadata, type ReleaseMetadata } from './release-metadata.ts';
import { type SigningKey, signatureOver, unsignedEnvelope, withSignature } from './sign-envelope.ts';

const FOLDER = 'release-manifests';
const IMAGE_REFERENCES = `${FOLDER}/image-references`;
/** The ConfigMap with the keys of its maker, and where signatures are published. */
const STORES_FILE = '0000_90_cluster-update-keys_configmap.yaml';
const FOLDER_LIMITS = { fileBytes: MAX_MANIFEST_BYTES, totalBytes: 256 * 1024 * 1024 };
const MAX_STORES = 4;

// Loose: ImageStream (image.openshift.io/v1) has many more fields, and may get new ones.
const imageStream = v.looseObject({
  kind: v.literal('ImageStream', "must be 'ImageStream'"),
  spec: v.looseObject({
    tags: v.array(
      v.looseObject({
        name: v.string('must be a name'),
        from: v.looseObject({ kind: v.string('must be a kind'), name: v.string('must be a reference') }),
      }),
    ),
  }),
});

/** `component` is made from its name in the release. */
interface PayloadImage {
  readonly component: string;
  readonly reference: Reference & { readonly digest: Digest };
}

interface ReleasePayload {
  readonly images: readonly PayloadImage[];
  readonly warnings: readonly string[];
}

export type ReadPayload = ReleasePayload & {
  /** The digest of the release image. */
  readonly digest: Digest;
  /** The places that the release names for its signatures. */
  readonly stores: readonly string[];
  readonly metadata: ReleaseMetadata | undefined;
  /** The images of the pods that the cluster starts for it. */
  readonly manifests: Manifests;
};

/** Other transports hold a single image, not a payload. @throws AppError `bundle/option` */
export function checkReleaseSource({ reference, source }: ImageRequest): void {
  if (source.kind === 'layout' || source.location.startsWith('docker://')) return;
  const message = `--release ${formatReference(reference)}=${source.location}: a release must come from docker:// or oci:, which can hold its payload too`;
  throw bundleError('bundle/option', message);
}

/** Reads the layers of a release image in a layout. @throws AppError `bundle/source` */
export async function readReleasePayload(
  release: LayoutRequest,
  arch: string,
  signal: AbortSignal,
): Promise<ReadPayload> {
  const name = formatReference(release.reference);
  const plan = await planImages([release], { arch, referrers: 'none' }, signal);
  const [image] = plan.images;
  const layers = (image?.layers ?? []).flatMap((at) => plan.layers[at] ?? []);
  const files = await readFolderInLayers(layers, FOLDER, FOLDER_LIMITS, signal);
  const bytes = files.get('image-references');
  if (image === undefined || bytes === undefined) {
    throw bundleError('bundle/source', `${name} is not an OpenShift release image: it has no ${IMAGE_REFERENCES}`);
  }
  const metadata = files.get('release-metadata');
  const keys = files.get(STORES_FILE);
  return {
    ...parseImageReferences(bytes, name),
    digest: image.digest,
    stores: keys === undefined ? [] : storesIn(keys),
    metadata: metadata && parseReleaseMetadata(metadata, name),
    manifests: manifestsIn(files, name),
  };
}

/** An unreadable manifest is left out with a note: only the cluster needs it. */
function manifestsIn(files: ReadonlyMap<string, Buffer>, release: string): Manifests {
  const images: ManifestImage[] = [];
  const notes: string[] = [];
  for (const [name, bytes] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const text = bytes.toString('utf8');
    if (!MANIFEST.test(name) || !NAMES_IMAGE.test(text)) continue;
    const file = `${FOLDER}/${name} of ${release}`;
    try {
      // A value that an operator fills in later has no meaning yet.
      const named = parseManifests(text, file).filter(({ image }) => image !== '' && !isImagePlaceholder(image));
      for (const one of named) images.push(one);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      notes.push(`${error.message}; its images are not compared with the bundle`);
    }
  }
  return { images, notes };
}

const makersKeys = v.looseObject({ kind: v.literal('ConfigMap'), data: v.record(v.string(), v.string()) });

/** Their addresses. Who made the release image may have written anything: only HTTPS counts. */
function storesIn(bytes: Buffer): string[] {
  try {
    const values = parseManifestDocuments(bytes.toString('utf8'), STORES_FILE).map(({ value }) => value);
    const data = values.flatMap((value) => (v.is(makersKeys, value) ? Object.entries(value.data) : []));
    const stores = data.filter(([name]) => name.startsWith('store-')).map(([, url]) => url.trim().replace(/\/+$/, ''));
    return stores.filter((url) => URL.canParse(url) && url.startsWith('https://')).slice(0, MAX_STORES);
  } catch (error) {
    if (error instanceof AppError) return [];
    throw error;
  }
}

/** The first name of an image counts. @throws AppError `bundle/source` with the wrong member */
export function parseImageReferences(bytes: Uint8Array, release: string): ReleasePayload {
  const what = `${IMAGE_REFERENCES} of ${release}`;
  const { spec } = parseJson(bytes, imageStream, what, 'bundle/source');
  const images = new Map<string, PayloadImage>();
  const components = new Map<string, string>();
  const warnings: string[] = [];
  for (const { name, from } of spec.tags) {
    if (from.kind !== 'DockerImage') {
      const message = `${what}: '${name}' is ${JSON.stringify(from.kind)}, and must be a DockerImage`;
      throw bundleError('bundle/source', message);
    }
    const reference = payloadReference(from.name, `${what}: '${name}'`);
    const key = formatReference({ repository: reference.repository, digest: reference.digest });
    const component = componentOf(name, what);
    const known = images.get(key);
    const other = components.get(component) ?? key;
    if (other !== key) throw bundleError('bundle/source', `${what}: '${name}' is both ${other} and ${key}`);
    components.set(component, key);
    if (known === undefined) images.set(key, { component, reference });
    else if (known.component !== component) {
      warnings.push(`${release}: '${component}' is the same image as '${known.component}', which is its component`);
    }
  }
  if (images.size === 0) throw bundleError('bundle/source', `${what} names no image`);
  return { images: [...images.values()], warnings };
}

function payloadReference(text: string, what: string): PayloadImage['reference'] {
  try {
    const { digest, ...reference } = parseReference(text);
    if (digest !== undefined) return { ...reference, digest };
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw bundleError('bundle/source', `${what}: ${reasonOf(cause)}`, { cause });
  }
  const message = `${what}: ${text} has no digest, so it is not certain which image belongs to the release`;
  throw bundleError('bundle/source', message);
}

function componentOf(name: string, what: string): string {
  const component = componentNamed(name);
  if (component !== undefined) return component;
  throw bundleError('bundle/source', `${what}: ${JSON.stringify(name)} can't be turned into the name of a component`);
}

/**
 * Requests each image from the source of its release. An image that was requested by the same
 * digest keeps its source, and gets the component unless it has one.
 */
export function requestPayload(
  release: ImageRequest,
  payload: ReleasePayload,
  requested: readonly ImageRequest[],
): { readonly requested: ImageRequest[]; readonly added: ImageRequest[] } {
  const completed = [...requested];
  const added: ImageRequest[] = [];
  for (const { reference, component } of payload.images) {
    const at = completed.findIndex(
      (request) =>
        request.pin !== false &&
        request.reference.repository === reference.repository &&
        request.reference.digest === reference.digest,
    );
    const same = completed[at];
    if (same !== undefined) completed[at] = { component, ...same };
    else {
      const origin = `release ${formatReference(release.reference)}, ${component}`;
      added.push({ reference, component, source: payloadSource(release, reference), origin });
    }
  }
  return { requested: completed, added };
}

/**
 * The source of an image of a payload:
 * - the release from an OCI layout: the same layout, by digest;
 * - the release from where its reference says: where the image's own reference says;
 * - the release from `docker://MIRROR/PATH`, its reference being `REGISTRY/PATH`: a mirror of that
 *   registry, so `MIRROR` with the image's path;
 * - the release from any other `docker://REPOSITORY`: that repository, by digest, as `oc adm
 *   release mirror --to` fills it.
 */
export function payloadSource(release: ImageRequest, image: PayloadImage['reference']): ImageSource {
  const { source, reference } = release;
  if (source.kind === 'layout') {
    return { ...source, selector: { kind: 'digest', digest: image.digest } };
  }
  const repository = repositoryOf(source.location.slice('docker://'.length));
  return { kind: 'skopeo', location: `docker://${mirrored(repository, reference, image)}@${image.digest}` };
}

function mirrored(repository: string, release: Reference, image: Reference): string {
  if (repository === release.repository) return image.repository;
  const path = release.repository.slice(release.registry.length);
  const isMirror = repository.endsWith(path) && image.registry === release.registry;
  return isMirror ? `${repository.slice(0, -path.length)}${image.repository.slice(image.registry.length)}` : repository;
}

/** The payload of a new bundle. It includes as many of `warnings` as it may. */
export function payloadOf(
  options: Omit<CreateOptions, 'update' | 'annotations'> & Pick<Payload, 'update' | 'annotations'>,
  tree: Pick<WrittenTree, 'indexPointer' | 'contentsPointer' | 'contents'>,
  totals: BundleTotals,
  attachments: readonly Attachment[],
  warnings: readonly string[],
): Payload {
  const { name, version, versionScheme, arch, sequence, created, expires } = options;
  const { update, schedule, keep, advisories, trust, annotations } = options;
  const payload: Payload = {
    schemaVersion: 1,
    ...defined({ name, version, versionScheme, arch, sequence, created, expires }),
    index: tree.indexPointer,
    contents: tree.contentsPointer,
    totals,
    ...defined({ update, schedule, keep, advisories, trust }),
    ...(attachments.length > 0 && { attachments }),
    ...(warnings.length > 0 && { warnings: payloadWarnings(warnings) }),
    ...defined({ annotations }),
  };
  return { ...payload, critical: criticalMembers(payload, tree.contents) };
}

/** An attachment counts only as such, even if it is a blob of an image too. */
export function totalsOf(plan: Plan, { layers, images }: Contents, attachments: readonly Attachment[]): BundleTotals {
  const blobs = new Map<Digest, number>(layers.map((layer) => [layer.digest, layer.sizeBytes]));
  for (const [digest, bytes] of plan.documents) blobs.set(digest, bytes.length);
  for (const { digest } of attachments) blobs.delete(digest);
  const sizes = [...blobs.values()];
  return {
    images: images.length,
    blobs: sizes.length,
    sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
    diskBytes: layers.reduce((sum, layer) => sum + layer.diskBytes, 0),
    inodes: layers.reduce((sum, layer) => sum + layer.inodes, 0),
  };
}

/** @throws AppError `bundle/option` when the payload is too large; `bundle/signer` */
export async function writeEnvelope(
  directory: string,
  payload: Payload,
  keys: readonly SigningKey[],
  signal: AbortSignal,
): Promise<BundleId> {
  const bytes = jsonBytes(payload);
  if (bytes.length > limits.payloadBytes) {
    const message = `the payload would have ${bytes.length} bytes, and ${limits.payloadBytes} are allowed`;
    throw bundleError('bundle/option', message);
  }
  let envelope = unsignedEnvelope(bytes);
  for (const key of keys) envelope = withSignature(envelope, await signatureOver(envelope, key, signal));
  await writeTreeFile(join(directory, 'bundle.dsse.json'), formatEnvelope(envelope));
  return bundleIdOf(bytes);
}

const MAX_BYTES = limits.payloadBytes / 4;

/**
 * Returns at most 256 lines of 1,024 characters, 64 KiB together; a last line counts the others.
 */
export function payloadWarnings(warnings: readonly string[]): string[] {
  const lines = warnings.map((warning) => clip(oneLine(warning), limits.textLength));
  let remaining = MAX_BYTES;
  const fitting = lines.findIndex((line, at) => {
    remaining -= Buffer.byteLength(line);
    return remaining < 0 || (at >= limits.payloadItems - 1 && lines.length > limits.payloadItems);
  });
  return fitting < 0 ? lines : [...lines.slice(0, fitting), `… and ${lines.length - fitting} more warnings`];
}
