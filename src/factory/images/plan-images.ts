import * as v from 'valibot';
import { bundleError } from '../../bundle/bundle-error.ts';
import { parseJson } from '../../bundle/format/json.ts';
import {
  configMediaTypes,
  type Descriptor,
  type ImageManifest,
  indexMediaTypes,
  isOfImage,
  manifestsForPlatform,
  parseConfig,
  parseIndex,
  parseManifest,
  type SourceEntry,
} from '../../bundle/format/oci-schema.ts';
import type { ImageRequest, LayoutSelector } from '../../bundle/image-request.ts';
import { limits } from '../../bundle/limits.ts';
import type { Artifact, Image } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { formatReference, lastPathPart, parseReference, type Reference } from '../../domain/model/reference.ts';
import { compareSchemeTags, impliedTags, parseSchemeTag } from '../../domain/model/version.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { AttachedReader, type ReferrerChoice } from './attached.ts';
import { withOrigin } from './images-file.ts';
import {
  findInLayout,
  layoutBlobPath,
  leftOutNotes,
  readLayoutDocument,
  readLayoutIndex,
  type SourceFile,
} from './layout-source.ts';

export interface LayoutRequest extends Omit<ImageRequest, 'source'> {
  readonly directory: string;
  readonly selector: LayoutSelector;
  /** The layout is ours: its layers may be moved out. Default false. */
  readonly isDisposable?: boolean;
  /** The layout's name in errors when its path is ours. Default `oci:` and the directory. */
  readonly place?: string;
  /** Whether it is a chart, a model or other artifact. Default false. */
  readonly isArtifact?: boolean;
}

/** `diffId`: the expected digest of the unpacked layer; undefined for a file of artifacts alone. */
export interface PlannedLayer extends Descriptor, SourceFile {
  readonly diffId: Digest | undefined;
  readonly isDisposable: boolean;
  /** Whether an artifact has it, so that a base may lack it. Default false. */
  readonly isOfArtifact?: boolean;
}

/** `sizeBytes` is that of the document that its digest names. */
export interface PlannedImage extends Image {
  readonly sizeBytes: number;
}

export interface PlannedArtifact extends Artifact {
  readonly sizeBytes: number;
}

/** Documents are manifests, indexes, configs and signatures with their bytes; each blob once. */
export interface Plan {
  readonly images: readonly PlannedImage[];
  readonly artifacts: readonly PlannedArtifact[];
  readonly documents: ReadonlyMap<Digest, Buffer>;
  readonly layers: readonly PlannedLayer[];
  readonly warnings: readonly string[];
  /** Digests of references without one, in the order of the requests. */
  readonly resolved: ReadonlyMap<string, Digest>;
}

/**
 * Reads all documents for `linux/arch` and lists what must be copied. An index keeps its digest.
 * Requests for one digest in a repository become one image with all their tags.
 *
 * @throws AppError `bundle/source`, `bundle/option` that names the image
 */
export async function planImages(
  requests: readonly LayoutRequest[],
  { arch, referrers = 'signatures' }: { readonly arch: string; readonly referrers?: ReferrerChoice | undefined },
  signal: AbortSignal,
): Promise<Plan> {
  const planner = new ImagePlanner(arch, referrers, signal);
  for (const request of requests) {
    await withOrigin(request.origin, () => (request.isArtifact ? planner.addArtifact(request) : planner.add(request)));
  }
  return planner.plan();
}

class ImagePlanner {
  private readonly images = new Map<string, PlannedImage>();
  private readonly artifacts = new Map<string, PlannedArtifact>();
  private readonly documents = new Map<Digest, Buffer>();
  private readonly layers = new Map<Digest, PlannedLayer & { readonly at: number }>();
  private readonly warnings: string[] = [];
  private readonly resolved = new Map<string, Digest>();
  private readonly indexes = new Map<string, readonly SourceEntry[]>();
  /** The place of the first request, by reference. */
  private readonly origins = new Map<string, string>();
  /** By reference. */
  private readonly proposedComponents = new Map<string, string>();

  private readonly attached: AttachedReader;

  constructor(
    private readonly arch: string,
    referrers: ReferrerChoice,
    private readonly signal: AbortSignal,
  ) {
    this.attached = new AttachedReader(referrers, this.documents, signal);
  }

  plan(): Plan {
    const { documents, resolved } = this;
    const images = [...this.images.values()].map((image) => {
      const attached = this.attached.of(image.reference);
      return attached.length === 0 ? image : { ...image, attached };
    });
    const warnings = [...this.warnings, ...this.attached.warnings];
    if (this.artifacts.size > limits.artifacts)
      throw bundleError('bundle/option', `more than ${limits.artifacts} artifacts`);
    if (this.images.size === 0 && this.artifacts.size > 0)
      throw bundleError('bundle/option', 'an artifact belongs to a release with at least one image: add one');
    const artifacts = [...this.artifacts.values()];
    const layers = [...this.layers.values()].map(({ at: _, ...layer }) => layer);
    return {
      images: nameComponents(deriveTags(images, artifacts), this.proposedComponents, warnings),
      artifacts,
      documents,
      layers,
      warnings,
      resolved,
    };
  }

  async add(request: LayoutRequest): Promise<void> {
    const image = await this.read(request);
    const name = formatReference(request.reference);
    this.warn(tagWarning(request.reference, name));
    this.warn(addressWarning(request.reference));
    if (request.reference.digest === undefined) this.resolved.set(name, image.digest);
    this.requireFree(name, image);
    const { proposedComponent } = request;
    if (proposedComponent !== undefined) this.proposedComponents.set(image.reference, proposedComponent);
    const known = this.images.get(image.reference);
    if (known === undefined) {
      this.images.set(image.reference, image);
      if (this.images.size > limits.images) throw bundleError('bundle/option', `more than ${limits.images} images`);
      if (request.origin !== undefined) this.origins.set(image.reference, request.origin);
      return;
    }
    if (known.component !== undefined && image.component !== undefined && known.component !== image.component) {
      const both = `${known.component} and ${image.component}`;
      throw bundleError('bundle/option', `${name} has two components: ${both}${this.firstOf(known)}`);
    }
    if (known.pin !== image.pin) {
      const message = `${name} is the same image as another one, but only one of them is to be pinned${this.firstOf(known)}`;
      throw bundleError('bundle/option', message);
    }
    const component = image.component === undefined ? {} : { component: image.component };
    const tags = [...new Set([...known.tags, ...image.tags])];
    this.images.set(image.reference, { ...image, ...known, ...component, tags });
  }

  async addArtifact(request: LayoutRequest): Promise<void> {
    const { name, top, read } = await this.open(request);
    if (indexMediaTypes.has(top.mediaType)) {
      const message = `${name} is an index, and an artifact has one manifest: give one of its manifests by digest`;
      throw bundleError('bundle/source', message);
    }
    const bytes = await read(top);
    const { config, layers } = parseManifest(bytes, `manifest of ${name}`, 'bundle/source');
    if (isOfImage(config.mediaType, layers) && artifactTypeOf(bytes) === undefined) {
      throw bundleError('bundle/source', `${name} is a container image, and no artifact: give it with --image`);
    }
    if (layers.length > limits.artifactLayers) {
      const message = `${name} has ${layers.length} layers, and ${limits.artifactLayers} are allowed`;
      throw bundleError('bundle/source', message);
    }
    await read(config);
    const { repository, tag } = request.reference;
    const artifact = {
      reference: formatReference({ repository, digest: top.digest }),
      digest: top.digest,
      mediaType: top.mediaType,
      sizeBytes: top.size,
      tags: tag === undefined ? [] : [formatReference({ repository, tag })],
      type: clip(oneLine(artifactTypeOf(bytes) ?? config.mediaType), limits.textLength),
      config: { digest: config.digest, size: config.size },
      layers: layers.map((layer) => this.addLayer(request, layer, undefined)),
    };
    if (request.reference.digest === undefined) this.resolved.set(name, top.digest);
    this.requireFree(name, artifact);
    const known = this.artifacts.get(artifact.reference);
    const tags = [...new Set([...(known?.tags ?? []), ...artifact.tags])];
    this.artifacts.set(artifact.reference, { ...artifact, tags });
  }

  /** Fails if another digest has one of its tags, or it is both image and artifact. */
  private requireFree(name: string, one: PlannedImage | PlannedArtifact): void {
    const taken = [...this.images.values(), ...this.artifacts.values()].find((other) =>
      other.reference === one.reference
        ? 'pin' in other !== 'pin' in one
        : other.tags.some((tag) => one.tags.includes(tag)),
    );
    if (taken === undefined) return;
    const how = taken.reference === one.reference ? 'as an image and as an artifact' : 'with different digests';
    throw bundleError('bundle/option', `${name} is requested twice ${how}${this.firstOf(taken)}`);
  }

  /** Finds a request in its layout. The result of `read` travels as a document. */
  private async open(request: LayoutRequest) {
    const { reference, directory } = request;
    const name = formatReference(reference);
    const place = placeOf(request);
    const entries = await this.entriesOf(request);
    const top = findInLayout(place, selectorOf(request), entries);
    if (reference.digest !== undefined && reference.digest !== top.digest) {
      throw bundleError('bundle/source', `${name}: ${place} holds ${top.digest} instead`);
    }
    const read = async (of: Descriptor) => {
      const file = { path: layoutBlobPath(directory, of.digest), what: `blob ${of.digest} of ${name} in ${place}` };
      const bytes = await readLayoutDocument(file, of, this.signal);
      this.documents.set(of.digest, bytes);
      return bytes;
    };
    return { name, place, entries, top, read };
  }

  private async read(request: LayoutRequest): Promise<PlannedImage> {
    const { arch } = this;
    const { reference, directory } = request;
    const { name, place, entries, top, read } = await this.open(request);
    const chosen = await chooseManifests(top, name, arch, read);
    const layers: number[] = [];
    for (const { bytes } of chosen) {
      const manifest = parseManifest(bytes, `manifest of ${name}`, 'bundle/source');
      requireImage(name, manifest);
      const config = parseConfig(await read(manifest.config), `config of ${name}`, 'bundle/source');
      if (config.architecture !== undefined && config.architecture !== arch) {
        const message = `${name} is an image for ${config.architecture}, and the bundle is for ${arch}`;
        throw bundleError('bundle/source', message);
      }
      layers.push(...this.addLayers(request, manifest.layers, config.rootfs.diff_ids));
    }
    const { repository, tag } = reference;
    const subjects = [...new Set([top.digest, ...chosen.map(({ digest }) => digest)])];
    const byDigest = formatReference({ repository, digest: top.digest });
    await this.attached.find(byDigest, subjects, { repository, directory, place, entries });
    return {
      reference: byDigest,
      digest: top.digest,
      mediaType: top.mediaType,
      sizeBytes: top.size,
      tags: tag === undefined ? [] : [formatReference({ repository, tag })],
      ...(request.component !== undefined && { component: request.component }),
      pin: request.pin ?? true,
      layers,
    };
  }

  /** Each layout is read once. */
  private async entriesOf(request: LayoutRequest): Promise<readonly SourceEntry[]> {
    const { directory } = request;
    const known = this.indexes.get(directory);
    if (known !== undefined) return known;
    const entries = await readLayoutIndex(directory, this.signal);
    this.indexes.set(directory, entries);
    this.warnings.push(...leftOutNotes(placeOf(request), entries));
    return entries;
  }

  private addLayers(request: LayoutRequest, layers: readonly Descriptor[], diffIds: readonly Digest[]): number[] {
    const name = formatReference(request.reference);
    if (layers.length > limits.layersPerImage) {
      const message = `${name} has ${layers.length} layers, and ${limits.layersPerImage} are allowed: squash it`;
      throw bundleError('bundle/source', message);
    }
    if (layers.length !== diffIds.length) {
      const message = `${name}: its manifest has ${layers.length} layers, its config ${diffIds.length}`;
      throw bundleError('bundle/source', message);
    }
    return layers.map((layer, at) => this.addLayer(request, layer, diffIds[at] ?? layer.digest));
  }

  /** Returns its index. A blob may be both a layer of an image and a file of an artifact. */
  private addLayer(request: LayoutRequest, layer: Descriptor, diffId: Digest | undefined): number {
    const { directory, isDisposable = false } = request;
    const known = this.layers.get(layer.digest);
    const path = layoutBlobPath(directory, layer.digest);
    const what = `layer ${layer.digest} of ${formatReference(request.reference)} in ${placeOf(request)}`;
    const planned = known ?? { ...layer, path, what, isDisposable, diffId, at: this.layers.size };
    const isOfArtifact = diffId === undefined || known?.isOfArtifact === true;
    this.layers.set(layer.digest, { ...planned, diffId: planned.diffId ?? diffId, isOfArtifact });
    return planned.at;
  }

  private firstOf({ reference }: Pick<PlannedImage, 'reference'>): string {
    const origin = this.origins.get(reference);
    return origin === undefined ? '' : ` (first in ${origin})`;
  }

  private warn(warning: string | undefined): void {
    if (warning !== undefined && !this.warnings.includes(warning)) this.warnings.push(warning);
  }
}

/** @throws AppError `bundle/source` that says how to give it */
function requireImage(name: string, { config: { mediaType: type }, layers }: ImageManifest): void {
  const nydus = layers.find(({ mediaType }) => mediaType.includes('nydus'))?.mediaType;
  const fault = (message: string) => bundleError('bundle/source', `${name} ${message}`);
  if (nydus !== undefined) {
    throw fault(
      `has a layer of Nydus (${nydus}), which only nodes with nydus-snapshotter use: give the image that it was made of, often the same tag without -nydus`,
    );
  }
  if (configMediaTypes.has(type) && isOfImage(type, layers)) return;
  if (isOfImage(type, layers)) {
    throw fault(
      `is an image of Docker before 1.10: its config has the type ${type}; copy it with 'skopeo copy --format oci', and give the copy`,
    );
  }
  const part = configMediaTypes.has(type) ? 'first layer' : 'config';
  const found = configMediaTypes.has(type) ? layers[0]?.mediaType : type;
  throw fault(`is not a container image: its ${part} is ${JSON.stringify(found)}; give it with --artifact`);
}

function placeOf({ place, directory }: LayoutRequest): string {
  return place ?? `oci:${directory}`;
}

function selectorOf({ selector, reference }: LayoutRequest): LayoutSelector {
  if (selector.kind !== 'only' || reference.digest === undefined) return selector;
  return { kind: 'digest', digest: reference.digest };
}

/** The document itself, or the manifests of an index that runtimes choose. */
async function chooseManifests(
  top: Descriptor,
  name: string,
  arch: string,
  read: (of: Descriptor) => Promise<Buffer>,
): Promise<{ readonly digest: Digest; readonly bytes: Buffer }[]> {
  const bytes = await read(top);
  if (!indexMediaTypes.has(top.mediaType)) return [{ digest: top.digest, bytes }];
  const index = parseIndex(bytes, `index of ${name}`, 'bundle/source');
  const chosen: { readonly digest: Digest; readonly bytes: Buffer }[] = [];
  const readIndex = async (entry: Descriptor) =>
    parseIndex(await read(entry), `index ${entry.digest} of ${name}`, 'bundle/source');
  for (const entry of await manifestsForPlatform(index, arch, name, readIndex)) {
    chosen.push({ digest: entry.digest, bytes: await read(entry) });
  }
  return chosen;
}

const artifactManifest = v.looseObject({ artifactType: v.exactOptional(v.string()) });

/** image-spec, manifest.md. An empty one is none. */
function artifactTypeOf(bytes: Buffer): string | undefined {
  return parseJson(bytes, artifactManifest, 'manifest', 'bundle/source').artifactType || undefined;
}

/** Kubernetes uses the pull policy `Always` for `latest`, and without tag and digest. */
function tagWarning({ tag, digest }: Reference, name: string): string | undefined {
  const always =
    'with it Kubernetes uses imagePullPolicy Always and asks the registry at each start; use a version as tag';
  if (tag === 'latest') return `${name}: the tag 'latest' may name another image tomorrow, and ${always}`;
  if (tag !== undefined || digest !== undefined) return undefined;
  return `${name} has no tag, so activation can't set one, and ${always}`;
}

/** containers/image, with which CRI-O pulls, reads no such name. containerd does. */
function addressWarning({ registry }: Reference): string | undefined {
  if (!registry.startsWith('[')) return undefined;
  return `CRI-O can't pull from ${registry}, since it reads no IPv6 address in the name of an image; give the registry a host name, unless all nodes have containerd`;
}

/**
 * The default is what a list proposes, or the last part of the path, unless two images would share
 * it.
 */
function nameComponents(
  images: readonly PlannedImage[],
  proposed: ReadonlyMap<string, string>,
  warnings: string[],
): PlannedImage[] {
  const wanted = images.map(
    ({ component, reference }) => component ?? proposed.get(reference) ?? lastPathPart(reference.split('@')[0] ?? ''),
  );
  const named = images.map((image, at) => {
    const component = wanted[at] ?? '';
    if (wanted.indexOf(component) === wanted.lastIndexOf(component)) return { ...image, component };
    if (image.component === undefined) {
      warnings.push(
        `${image.reference} has no component, because another image is named '${component}' too; give it one with COMPONENT=REF`,
      );
    }
    return image;
  });
  const explicit = named.flatMap((image) => image.component ?? []);
  const twice = explicit.find((component, at) => explicit.indexOf(component) !== at);
  if (twice !== undefined) throw bundleError('bundle/option', `two images have the component '${twice}'`);
  return named;
}

/**
 * Bundle format 1, "Tags": a requested tag stays with its image or artifact; of several images the
 * one with the highest long tag gets an implied tag.
 */
export function deriveTags<Planned extends Image>(
  images: readonly Planned[],
  artifacts: readonly Artifact[] = [],
): Planned[] {
  const requested = new Set([...images, ...artifacts].flatMap(({ tags }) => tags));
  const winners = new Map<string, { readonly image: Planned; readonly long: string }>();
  for (const image of images) {
    for (const long of image.tags.map((name) => name.slice(name.lastIndexOf(':') + 1))) {
      for (const implied of impliedTags(long)) {
        const name = `${parseReference(image.reference).repository}:${implied}`;
        const known = winners.get(name);
        if (!requested.has(name) && (known === undefined || isHigher(long, known.long)))
          winners.set(name, { image, long });
      }
    }
  }
  return images.map((image) => {
    const derived = [...winners].filter(([, winner]) => winner.image === image).map(([name]) => name);
    return derived.length === 0 ? image : { ...image, tags: [...image.tags, ...derived] };
  });
}

function isHigher(tag: string, other: string): boolean {
  const [a, b] = [parseSchemeTag(tag), parseSchemeTag(other)];
  return a !== undefined && b !== undefined && compareSchemeTags(a, b) > 0;
}
