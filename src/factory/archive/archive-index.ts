import * as v from 'valibot';
import { parseJson } from '../../bundle/format/json.ts';
import {
  configMediaTypes,
  type Descriptor,
  indexMediaTypes,
  manifestMediaTypes,
  mediaTypes,
} from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { formatReference, parseReference, type Reference } from '../../domain/model/reference.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { isChosen, type ReferrerChoice, signatureTagOf } from '../images/attached.ts';
import { REF_NAME } from '../images/layout-source.ts';
import { type ArchiveMembers, badArchive } from './unpack-archive.ts';

export interface ArchiveImage {
  readonly descriptor: Descriptor;
  readonly reference: Reference;
  /** GOARCH of its entry, where the entry has one. */
  readonly architecture?: string;
  /** A chart, a file: no container image. */
  readonly isArtifact?: true;
}

interface AttachedEntry {
  readonly descriptor: Descriptor;
  readonly reference?: Reference;
}

interface ArchiveIndex {
  readonly images: readonly ArchiveImage[];
  /** What describes an image: named `…:sha256-<hex>.sig`, or with a `subject`. */
  readonly attached: readonly AttachedEntry[];
  /** Names of referrers and of what has no manifest or no name, each with its media type. */
  readonly leftOut: readonly string[];
  /** Manifests that are not in the archive, since they are made of what it lists. */
  readonly made: ReadonlyMap<Digest, Buffer>;
}

/** containerd's and Docker's annotation for the full name of an image. */
const IMAGE_NAME = 'io.containerd.image.name';
/** Old packages of zarf have the name of an image here; elsewhere it is that of its base image. */
const BASE_NAME = 'org.opencontainers.image.base.name';
/** The one file of a package of zarf that every package has. */
const ZARF = 'zarf.yaml';
const ATTACHED = /^sha256-[0-9a-f]{64}(?:\.(sig|att|sbom))?$/;
/**
 * cosign's signatures. In `cosign save` and in stores of hauler they have the name of their image.
 */
const SIMPLE_SIGNING = 'application/vnd.dev.cosign.simplesigning.v1+json';
/** crane's tag for an image that was pulled by its digest, which its archive does not have. */
const LOST_DIGEST = 'i-was-a-digest';
const LAYER = /^application\/vnd\.(?:oci\.image\.layer|docker\.image\.rootfs)\./;

const size = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const text = v.exactOptional(v.string());
const layoutIndex = v.object({
  manifests: v.array(
    v.object({
      mediaType: v.string(),
      digest: v.string(),
      size,
      platform: v.exactOptional(v.object({ architecture: v.string(), os: v.string() })),
      annotations: v.exactOptional(v.nullable(v.object({ [REF_NAME]: text, [IMAGE_NAME]: text, [BASE_NAME]: text }))),
    }),
  ),
});
const typed = v.looseObject({ mediaType: v.string() });
const anyManifest = v.looseObject({
  artifactType: v.exactOptional(v.string()),
  subject: v.exactOptional(v.looseObject({ digest: v.string() })),
  config: v.exactOptional(typed),
  layers: v.exactOptional(v.array(typed)),
});
const dockerManifest = v.array(
  v.object({
    Config: v.string(),
    RepoTags: v.exactOptional(v.nullable(v.array(v.string()))),
    Layers: v.pipe(
      v.array(v.string()),
      v.maxLength(limits.layersPerImage, `more than ${limits.layersPerImage} layers`),
    ),
  }),
);

/** By `index.json` (OCI layout), else Docker's `manifest.json`. @throws AppError `bundle/source` */
export async function archiveIndexOf(
  members: ArchiveMembers,
  choice: ReferrerChoice,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<ArchiveIndex> {
  const load = async (name: string) => {
    if (!members.files.has(name) && !members.links.has(name)) return undefined;
    return read(members.fileOf(name).digest, limits.indexBytes);
  };
  const index = await load(`${layoutFolder(members)}index.json`);
  if (index !== undefined) return imagesOfLayout(members, index, choice, read);
  const manifest = await load('manifest.json');
  if (manifest !== undefined) return imagesOfDocker(members, manifest);
  throw badArchive(members.path, otherContent([...members.files.keys()]));
}

/** Empty, or the only folder with a layout: zarf has one in `images/`, a packed folder its own. */
function layoutFolder({ files }: ArchiveMembers): string {
  if (files.has('index.json')) return '';
  const [folder, another] = [...files.keys()].flatMap((name) => /^(.+\/)oci-layout$/.exec(name)?.[1] ?? []);
  return another === undefined ? (folder ?? '') : '';
}

/** What people hold that is no archive of images, and what to do with it. */
const OTHERS: readonly (readonly [name: RegExp, advice: string])[] = [
  [
    /(?:^|\/)docker\/registry\/v2\//,
    'it is of oc-mirror, or the storage of a registry: give it with --from-openshift-iso, beside all its parts',
  ],
  [/^publish\/\.metadata\.json$/, 'it is of oc-mirror 1: mirror the release again with oc-mirror --v2'],
  [/^images\.tar$/, 'it is a package of an old zarf: create it again with zarf 0.32 or newer'],
  [/^zarf\.yaml$/, 'it is a package of zarf without images'],
  [/^repositories$/, 'it is of Docker before 1.10: load it into a newer one, and save it again'],
  [/(?:^|\/)Chart\.yaml$/, 'it is a chart: give its output, as helm template NAME FILE | … --images-from -'],
];

function otherContent(names: readonly string[]): string {
  const [, advice] = OTHERS.find(([pattern]) => names.some((name) => pattern.test(name))) ?? [];
  return advice ?? 'it has neither index.json nor manifest.json, so it is no archive of images';
}

/** image-spec, image-layout.md: skopeo, podman, containerd and Docker from 25 on write it. */
async function imagesOfLayout(
  { path, files }: ArchiveMembers,
  bytes: Buffer,
  choice: ReferrerChoice,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<ArchiveIndex> {
  const { manifests } = parseJson(bytes, layoutIndex, `index.json of ${path}`, 'bundle/source', limits.treeItems);
  const isZarf = files.has(ZARF);
  const all = manifests.map(({ mediaType, digest, size, platform, annotations }) => {
    if (!isDigest(digest)) throw badArchive(path, `${JSON.stringify(digest)} in index.json is no sha256 digest`);
    const name =
      annotations?.[IMAGE_NAME] ?? annotations?.[REF_NAME] ?? (isZarf ? annotations?.[BASE_NAME] : undefined);
    const reference = name === undefined ? undefined : referenceOf(name);
    const architecture = platform?.architecture;
    return { descriptor: { mediaType, digest, size }, name, reference, ...defined({ architecture }) };
  });
  const named = new Set(all.flatMap(({ reference, descriptor }) => (reference === undefined ? [] : descriptor.digest)));
  const stored = new Set([...files.values()].map(({ digest }) => digest));
  const digests = new Set<string>(all.map(({ descriptor }) => descriptor.digest));
  const images: ArchiveImage[] = [];
  const attached: AttachedEntry[] = [];
  const leftOut: string[] = [];
  const signatures: ArchiveImage[] = [];
  const artifacts: (ArchiveImage & { readonly type: string })[] = [];
  for (const { name, reference, ...image } of all) {
    const { digest } = image.descriptor;
    const [tagged, kind] = ATTACHED.exec(reference?.tag ?? '') ?? [];
    const isWanted =
      kind === undefined ? indexMediaTypes.has(image.descriptor.mediaType) : kind === 'sig' || choice === 'all';
    if (reference !== undefined && tagged !== undefined && isWanted && choice !== 'none') {
      attached.push({ ...image, reference });
      continue;
    }
    // Under Kubernetes containerd lists an image by its id, too.
    if (reference === undefined && named.has(digest)) continue;
    const artifact = stored.has(digest) ? await artifactOf(image.descriptor, path, read) : undefined;
    const refersHere = artifact?.subject !== undefined && digests.has(artifact.subject);
    if (artifact?.type === SIMPLE_SIGNING && reference !== undefined) signatures.push({ ...image, reference });
    else if (refersHere && isChosen(artifact?.type, choice)) attached.push(image);
    else if (artifact?.isWhole && reference !== undefined) artifacts.push({ ...image, reference, type: artifact.type });
    else if (artifact !== undefined) leftOut.push(`${name ?? digest} (${artifact.type})`);
    else if (tagged !== undefined) leftOut.push(`${name} (${image.descriptor.mediaType})`);
    else if (reference !== undefined) images.push({ ...image, reference });
    else throw unnamed(path, digest, name);
  }
  const byName = new Map<string, Set<Digest>>();
  for (const { reference, descriptor } of signatures.length === 0 ? [] : images) {
    const name = formatReference(reference);
    byName.set(name, (byName.get(name) ?? new Set()).add(descriptor.digest));
  }
  for (const signature of signatures) {
    const signed = choice === 'none' ? undefined : signedBy(signature, byName);
    if (signed === undefined) leftOut.push(`${formatReference(signature.reference)} (${SIMPLE_SIGNING})`);
    else attached.push({ ...signature, reference: signed });
  }
  // What describes an image may have its name.
  const names = new Set(images.map(({ reference }) => formatReference(reference)));
  for (const { type, ...artifact } of artifacts) {
    const name = formatReference(artifact.reference);
    if (names.has(name)) leftOut.push(`${name} (${type})`);
    else images.push({ ...artifact, isArtifact: true });
  }
  return { images, attached, leftOut, made: new Map() };
}

/**
 * The name of a signature that is saved under that of its image; undefined when several have it.
 */
function signedBy(
  { reference }: ArchiveImage,
  byName: ReadonlyMap<string, ReadonlySet<Digest>>,
): Reference | undefined {
  const [digest, another] = byName.get(formatReference(reference)) ?? [];
  if (digest === undefined || another !== undefined) return undefined;
  return { repository: reference.repository, registry: reference.registry, tag: signatureTagOf(digest) };
}

function unnamed(path: string, digest: Digest, name: string | undefined) {
  const shown = name === undefined ? 'no name' : `no full name, only ${JSON.stringify(name)}`;
  const message = `image ${digest} has ${shown}: give it as --image REFERENCE=oci-archive:${path}, or save it by its name`;
  return badArchive(path, message);
}

interface FoundArtifact {
  readonly type: string;
  readonly subject?: string | undefined;
  /** It describes nothing else, and a bundle can carry it. */
  readonly isWhole?: boolean;
}

/** The type of a chart, a file, a signature or another artifact; undefined for an image. */
async function artifactOf(
  { mediaType, digest }: Descriptor,
  path: string,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<FoundArtifact | undefined> {
  if (!manifestMediaTypes.has(mediaType)) return { type: mediaType };
  if (indexMediaTypes.has(mediaType)) return undefined;
  const bytes = await read(digest, limits.manifestBytes);
  const found = parseJson(bytes, anyManifest, `manifest ${digest} of ${path}`, 'bundle/source');
  const { config, layers = [], artifactType, subject } = found;
  const ofConfig = config !== undefined && !configMediaTypes.has(config.mediaType) ? config.mediaType : undefined;
  const ofLayer = layers.some((layer) => LAYER.test(layer.mediaType)) ? undefined : layers[0]?.mediaType;
  const type = artifactType ?? ofConfig ?? ofLayer ?? (subject && mediaType);
  if (type === undefined) return undefined;
  return { type, subject: subject?.digest, isWhole: subject === undefined && config !== undefined };
}

/** Docker image specification 1.2, "Combined Image JSON + Filesystem Changeset Format". */
function imagesOfDocker(members: ArchiveMembers, bytes: Buffer): ArchiveIndex {
  const { path } = members;
  const entries = parseJson(bytes, dockerManifest, `manifest.json of ${path}`, 'bundle/source', limits.treeItems);
  const made = new Map<Digest, Buffer>();
  const images = entries.flatMap(({ Config, RepoTags, Layers }): ArchiveImage[] => {
    const manifest = manifestOf(
      members.fileOf(Config),
      Layers.map((layer) => members.fileOf(layer)),
    );
    const descriptor = { mediaType: mediaTypes.dockerManifest, digest: digestOf(manifest), size: manifest.length };
    made.set(descriptor.digest, manifest);
    if (RepoTags == null || RepoTags.length === 0) {
      throw badArchive(path, `image ${JSON.stringify(Config)} has no name: save it by its name, not by its id`);
    }
    return RepoTags.map((name) => {
      const reference = referenceOf(name);
      if (reference?.tag === LOST_DIGEST) {
        const message = `${name}: crane pulled it by its digest, which the archive has lost: pull it by its tag, or with --format oci --annotate-ref`;
        throw badArchive(path, message);
      }
      if (reference !== undefined) return { descriptor, reference };
      throw badArchive(path, `${JSON.stringify(name)} in manifest.json is no name of an image`);
    });
  });
  return { images, attached: [], leftOut: [], made };
}

interface Blob {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/** The same bytes as skopeo makes for `docker-archive:` with plain layers. */
function manifestOf(config: Blob, layers: readonly Blob[]): Buffer {
  const descriptor = (mediaType: string, { digest, sizeBytes }: Blob) => ({ mediaType, size: sizeBytes, digest });
  return Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: mediaTypes.dockerManifest,
      config: descriptor(mediaTypes.dockerConfig, config),
      layers: layers.map((layer) => descriptor('application/vnd.docker.image.rootfs.diff.tar.gzip', layer)),
    }),
  );
}

/** Docker leaves out `docker.io`. A tag alone is no name. */
function referenceOf(name: string): Reference | undefined {
  if (/^sha256:/.test(name) || !/[/:@]/.test(name)) return undefined;
  for (const text of [name, `docker.io/${name}`]) {
    try {
      return parseReference(text);
    } catch {
      // The next form, or none.
    }
  }
  return undefined;
}
