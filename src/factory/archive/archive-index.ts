import * as v from 'valibot';
import { parseJson } from '../../bundle/format/json.ts';
import {
  configMediaTypes,
  type Descriptor,
  indexMediaTypes,
  isOfImage,
  manifestMediaTypes,
  mediaTypes,
  parseImageDocument,
} from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { formatReference, lastPathPart, parseReference, type Reference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { digestOf } from '../../platform/digest.ts';
import { isChosen, type ReferrerChoice, signatureTagOf } from '../images/attached.ts';
import { REF_NAME } from '../images/layout-source.ts';
import { NO_REGISTRY, OF_OPENSHIFT, otherContent, storedRevisions, storedTags } from './other-forms.ts';
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

/** An image without a full name, and how to take it. */
export interface UnnamedImage {
  readonly what: string;
  readonly advice: string;
}

/** Decides what is taken from an archive, and reads stored documents. */
interface Choosing {
  readonly choice: ReferrerChoice;
  /** The registry of images in a registry's storage, which does not name it. */
  readonly registry?: string | undefined;
  readonly read: (digest: Digest, maxBytes: number) => Promise<Buffer>;
}

export interface ArchiveIndex {
  readonly images: readonly ArchiveImage[];
  /** Descriptions of images: named `…:sha256-<hex>.sig`, or with a `subject`. */
  readonly attached: readonly AttachedEntry[];
  /** Names of referrers and of what has no manifest or no name, each with its media type. */
  readonly leftOut: readonly string[];
  readonly unnamed: readonly UnnamedImage[];
  /** Manifests that are not in the archive, since they are made of what it lists. */
  readonly made: ReadonlyMap<Digest, Buffer>;
}

/** containerd's and Docker's annotation for the full name of an image. */
const IMAGE_NAME = 'io.containerd.image.name';
/** Old packages of zarf have the image's name here; elsewhere it is the name of the base image. */
const BASE_NAME = 'org.opencontainers.image.base.name';
/** The one file of a package of zarf that every package has. */
const ZARF = 'zarf.yaml';
const ATTACHED = /^sha256-[0-9a-f]{64}(?:\.(sig|att|sbom))?$/;
/** cosign's signatures. `cosign save` and stores of hauler give them the name of their image. */
const SIMPLE_SIGNING = 'application/vnd.dev.cosign.simplesigning.v1+json';
/** crane's tag for an image that was pulled by its digest, which its archive does not have. */
const LOST_DIGEST = 'i-was-a-digest';
const LOST =
  'crane pulled it by its digest, which the archive has lost: pull it by its tag, or with --format oci --annotate-ref';
/** Talos packs all images of its cache into the only layer of one image. */
const NO_SYSTEM =
  'its config names no operating system, so it is no container image: in place of an image cache of Talos give the list of images that it was made of, with --images-file';
/** The largest link in the storage of a registry. */
const MAX_LINK_BYTES = 256;

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
const anyConfig = v.looseObject({ os: text });
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

/**
 * Reads `index.json` (OCI layout), else Docker's `manifest.json`, else the tags of a registry's
 * storage.
 * @throws AppError `bundle/source`
 */
export async function archiveIndexOf(members: ArchiveMembers, by: Choosing): Promise<ArchiveIndex> {
  const load = async (name: string) => {
    if (!members.files.has(name) && !members.links.has(name)) return undefined;
    return by.read(members.fileOf(name).digest, limits.indexBytes);
  };
  const index = await load(`${layoutFolder(members)}index.json`);
  if (index !== undefined) return imagesOfLayout(members, index, by);
  const names = [...members.files.keys()];
  const manifest = names.includes('version') ? undefined : await load('manifest.json');
  if (manifest !== undefined) return imagesOfDocker(members, manifest, by);
  const entries = await entriesOfStorage(members, by);
  if (entries.length > 0) return new EntrySorter(members, entries, by).sort();
  throw badArchive(members.path, otherContent(names));
}

/** @throws AppError `bundle/source` when the name of the registry is unknown */
async function entriesOfStorage(members: ArchiveMembers, { registry, read }: Choosing): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const { repository, tag, file } of storedTags(members.files)) {
    if (lastPathPart(repository) === 'release-images') throw badArchive(members.path, OF_OPENSHIFT);
    if (registry === undefined) throw badArchive(members.path, NO_REGISTRY);
    const digest = (await read(file, MAX_LINK_BYTES)).toString('latin1').trim();
    const name = `${registry}/${repository}:${tag}`;
    const reference = referenceOf(name);
    if (!isDigest(digest) || reference === undefined) throw badArchive(members.path, `the tag ${name} is damaged`);
    const bytes = await read(digest, limits.manifestBytes).catch(() => undefined);
    if (bytes === undefined) throw badArchive(members.path, `it lacks ${digest} of ${name}`);
    const { mediaType } = parseImageDocument(bytes, `${digest} of ${name}`, 'bundle/source');
    entries.push({ descriptor: { mediaType, digest, size: bytes.length }, name, reference, position: entries.length });
  }
  return [...entries, ...(await referrersInStorage(members, entries, read))];
}

/**
 * Manifests without a tag that describe another one. The others are of earlier images, or parts of
 * an index.
 */
async function referrersInStorage(
  { files, path }: ArchiveMembers,
  tagged: readonly Entry[],
  read: Choosing['read'],
): Promise<Entry[]> {
  const entries: Entry[] = [];
  const known = new Set<string>(tagged.map(({ descriptor }) => descriptor.digest));
  for (const digest of tagged.length === 0 ? [] : storedRevisions(files)) {
    const bytes = known.has(digest) ? undefined : await read(digest, limits.manifestBytes).catch(() => undefined);
    if (bytes === undefined) continue;
    try {
      const { mediaType } = parseImageDocument(bytes, `${digest} of ${path}`, 'bundle/source');
      if (parseJson(bytes, anyManifest, digest, 'bundle/source').subject === undefined) continue;
      const descriptor = { mediaType, digest, size: bytes.length };
      entries.push({ descriptor, name: undefined, reference: undefined, position: tagged.length + entries.length });
    } catch (error) {
      // A manifest in a form before OCI refers to nothing.
      if (!(error instanceof AppError)) throw error;
    }
  }
  return entries;
}

/** Empty, or the only folder with a layout: `images/` for zarf, another for a packed folder. */
function layoutFolder({ files }: ArchiveMembers): string {
  if (files.has('index.json')) return '';
  const [folder, another] = [...files.keys()].flatMap((name) => /^(.+\/)oci-layout$/.exec(name)?.[1] ?? []);
  return another === undefined ? (folder ?? '') : '';
}

/** image-spec, image-layout.md: skopeo, podman, containerd and Docker from 25 on write it. */
async function imagesOfLayout(members: ArchiveMembers, bytes: Buffer, by: Choosing): Promise<ArchiveIndex> {
  const { path, files } = members;
  const { manifests } = parseJson(bytes, layoutIndex, `index.json of ${path}`, 'bundle/source', limits.treeItems);
  const isZarf = files.has(ZARF);
  const entries = manifests.map(({ mediaType, digest, size, platform, annotations }, position) => {
    if (!isDigest(digest)) throw badArchive(path, `${JSON.stringify(digest)} in index.json is no sha256 digest`);
    const name =
      annotations?.[IMAGE_NAME] ?? annotations?.[REF_NAME] ?? (isZarf ? annotations?.[BASE_NAME] : undefined);
    const reference = name === undefined ? undefined : referenceOf(name);
    const architecture = platform?.architecture;
    return { descriptor: { mediaType, digest, size }, name, reference, position, ...defined({ architecture }) };
  });
  return new EntrySorter(members, entries, by).sort();
}

interface Entry {
  readonly descriptor: Descriptor;
  readonly name: string | undefined;
  readonly reference: Reference | undefined;
  readonly architecture?: string;
  readonly position: number;
}

/** Sorts entries into images, artifacts, descriptions of images, and others. */
class EntrySorter {
  private readonly images: ArchiveImage[] = [];
  private readonly attached: AttachedEntry[] = [];
  private readonly leftOut: string[] = [];
  private readonly unnamed: UnnamedImage[] = [];
  private readonly signatures: ArchiveImage[] = [];
  private readonly artifacts: (ArchiveImage & { readonly type: string })[] = [];
  private readonly stored: ReadonlySet<Digest>;
  /** Many entries may name one large manifest. */
  private readonly types = new Map<Digest, FoundArtifact | undefined>();

  constructor(
    private readonly members: ArchiveMembers,
    private readonly entries: readonly Entry[],
    private readonly by: Choosing,
  ) {
    this.stored = new Set([...members.files.values()].map(({ digest }) => digest));
  }

  async sort(): Promise<ArchiveIndex> {
    const { choice } = this.by;
    const named = new Set(
      this.entries.flatMap(({ reference, descriptor }) => (reference === undefined ? [] : descriptor.digest)),
    );
    const digests = new Set<string>(this.entries.map(({ descriptor }) => descriptor.digest));
    for (const { name, reference, position, ...image } of this.entries) {
      const { digest } = image.descriptor;
      const [tagged, kind] = ATTACHED.exec(reference?.tag ?? '') ?? [];
      const isWanted =
        kind === undefined ? indexMediaTypes.has(image.descriptor.mediaType) : kind === 'sig' || choice === 'all';
      if (reference !== undefined && tagged !== undefined && isWanted && choice !== 'none') {
        this.attached.push({ ...image, reference });
        continue;
      }
      // containerd also lists an image by its id under Kubernetes.
      if (reference === undefined && named.has(digest)) continue;
      const artifact = await this.artifactOf(image.descriptor);
      const refersHere = artifact?.subject !== undefined && digests.has(artifact.subject);
      if (artifact?.type === SIMPLE_SIGNING && reference !== undefined) this.signatures.push({ ...image, reference });
      else if (refersHere && isChosen(artifact?.type, choice)) this.attached.push(image);
      else if (artifact?.isWhole && reference !== undefined)
        this.artifacts.push({ ...image, reference, type: artifact.type });
      else if (artifact !== undefined) this.leftOut.push(`${name ?? digest} (${artifact.type})`);
      else if (tagged !== undefined) this.leftOut.push(`${name} (${image.descriptor.mediaType})`);
      else if (reference !== undefined) this.images.push({ ...image, reference });
      else this.unnamed.push(this.withoutName(digest, name, position));
    }
    this.placeSignatures();
    this.placeArtifacts();
    const { images, attached, leftOut, unnamed } = this;
    return { images, attached, leftOut, unnamed, made: new Map() };
  }

  private withoutName(digest: Digest, name: string | undefined, position: number): UnnamedImage {
    const { path, isOwn } = this.members;
    const folder = isOwn ? 'FOLDER' : path;
    const unpack = isOwn ? 'unpack the archive into a folder, and ' : '';
    const what = name === undefined ? digest : `${JSON.stringify(name)} (${digest})`;
    return {
      what: `image ${what}, number ${position}`,
      advice: `${unpack}give it as --image REFERENCE=oci:${folder}:@NUMBER, or save it by its name`,
    };
  }

  /** Places signatures that are saved under the name of their image. */
  private placeSignatures(): void {
    const byName = new Map<string, Set<Digest>>();
    for (const { reference, descriptor } of this.signatures.length === 0 ? [] : this.images) {
      const name = formatReference(reference);
      byName.set(name, (byName.get(name) ?? new Set()).add(descriptor.digest));
    }
    for (const signature of this.signatures) {
      const signed = this.by.choice === 'none' ? undefined : signedBy(signature, byName);
      if (signed === undefined) this.leftOut.push(`${formatReference(signature.reference)} (${SIMPLE_SIGNING})`);
      else this.attached.push({ ...signature, reference: signed });
    }
  }

  /** The description of an image may have the name of the image. */
  private placeArtifacts(): void {
    const names = new Set(this.images.map(({ reference }) => formatReference(reference)));
    for (const { type, ...artifact } of this.artifacts) {
      const name = formatReference(artifact.reference);
      if (names.has(name)) this.leftOut.push(`${name} (${type})`);
      else this.images.push({ ...artifact, isArtifact: true });
    }
  }

  /** Returns undefined for an image, and for what is not stored. */
  private async artifactOf(descriptor: Descriptor): Promise<FoundArtifact | undefined> {
    const { digest } = descriptor;
    if (!this.stored.has(digest)) return undefined;
    if (!this.types.has(digest)) {
      this.types.set(digest, await artifactOf(descriptor, this.members.path, this.by.read));
    }
    return this.types.get(digest);
  }
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
  const isImage = config !== undefined && isOfImage(config.mediaType, layers);
  const ofConfig = config !== undefined && configMediaTypes.has(config.mediaType) ? undefined : config?.mediaType;
  const type = artifactType ?? (isImage ? undefined : (ofConfig ?? layers[0]?.mediaType)) ?? (subject && mediaType);
  if (type === undefined) return undefined;
  return { type, subject: subject?.digest, isWhole: subject === undefined && config !== undefined };
}

/** Returns false for a config that can't be read: another check reports it. */
async function namesNoSystem(config: Digest, read: Choosing['read']): Promise<boolean> {
  try {
    return parseJson(await read(config, limits.configBytes), anyConfig, config, 'bundle/source').os === '';
  } catch {
    return false;
  }
}

/** Docker image specification 1.2, "Combined Image JSON + Filesystem Changeset Format". */
async function imagesOfDocker(members: ArchiveMembers, bytes: Buffer, { read }: Choosing): Promise<ArchiveIndex> {
  const { path } = members;
  const entries = parseJson(bytes, dockerManifest, `manifest.json of ${path}`, 'bundle/source', limits.treeItems);
  const made = new Map<Digest, Buffer>();
  const images: ArchiveImage[] = [];
  const unnamed: UnnamedImage[] = [];
  for (const [position, { Config, RepoTags, Layers }] of entries.entries()) {
    const config = members.fileOf(Config);
    const manifest = manifestOf(
      config,
      Layers.map((layer) => members.fileOf(layer)),
    );
    const descriptor = { mediaType: mediaTypes.dockerManifest, digest: digestOf(manifest), size: manifest.length };
    made.set(descriptor.digest, manifest);
    const advice = `give it as --image REFERENCE=docker-archive:${path}:@NUMBER, or save it by its name, not by its id`;
    if (RepoTags == null || RepoTags.length === 0) {
      const what = `image ${JSON.stringify(Config)}, number ${position}`;
      unnamed.push({ what, advice: (await namesNoSystem(config.digest, read)) ? NO_SYSTEM : advice });
    }
    for (const name of RepoTags ?? []) {
      const reference = referenceOf(name);
      const isLost = reference?.tag === LOST_DIGEST;
      if (reference !== undefined && !isLost) images.push({ descriptor, reference });
      else if (isLost) unnamed.push({ what: name, advice: LOST });
      else unnamed.push({ what: `image ${JSON.stringify(name)}, number ${position}`, advice });
    }
  }
  return { images, attached: [], leftOut: [], unnamed, made };
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
