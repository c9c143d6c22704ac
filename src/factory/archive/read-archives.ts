import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
import { oneLine } from '../../platform/plain-text.ts';
import { layoutBlobPath, REF_NAME } from '../images/layout-source.ts';
import type { LayoutRequest } from '../images/plan-images.ts';
import { countBytes, type ProgressListener } from '../progress.ts';
import { type ArchiveMembers, badArchive, unpackArchive } from './unpack-archive.ts';

/**
 * Unpacks archives (`docker save`, k3s and RKE2 air-gap, OCI layouts), each into a layout below
 * `folder`, which the caller removes, and requests all their images. Notes name other content.
 *
 * @throws AppError `bundle/source`, `bundle/no-space`
 */
export async function readArchives(
  archives: readonly string[],
  {
    folder,
    arch,
    onProgress,
  }: { readonly folder: string; readonly arch: string; readonly onProgress: ProgressListener },
  signal: AbortSignal,
): Promise<{ readonly requests: readonly LayoutRequest[]; readonly notes: readonly string[] }> {
  let totalBytes = 0;
  for (const path of archives) totalBytes += (await stat(path).catch(() => undefined))?.size ?? 0;
  const onBytes = countBytes('unpack', totalBytes, onProgress);
  const requests: LayoutRequest[] = [];
  const notes: string[] = [];
  for (const [at, path] of archives.entries()) {
    const directory = join(folder, String(at));
    const members = await unpackArchive(path, directory, onBytes, signal);
    const read = async (digest: Digest, maxBytes: number) => {
      const file = layoutBlobPath(directory, digest);
      const { size } = await stat(file);
      if (size > maxBytes) throw badArchive(path, `its list of images has ${size} bytes, and ${maxBytes} are allowed`);
      return readFile(file, { signal });
    };
    const { images, attached, leftOut, made } = await archiveIndexOf(members, read);
    for (const [digest, bytes] of made) await writeFile(layoutBlobPath(directory, digest), bytes);
    if (leftOut.length > 0) notes.push(leftOutNote(path, leftOut));
    const chosen = chooseImages(images, arch, path);
    const stored = new Set([...made.keys(), ...[...members.files.values()].map(({ digest }) => digest)]);
    const lacking = chosen.find(({ descriptor }) => !stored.has(descriptor.digest));
    if (lacking !== undefined) {
      throw badArchive(path, `it lacks ${lacking.descriptor.digest} of ${formatReference(lacking.reference)}`);
    }
    const manifests = [...chosen, ...attached].map(({ descriptor, reference }) => ({
      ...descriptor,
      annotations: { [REF_NAME]: formatReference(reference) },
    }));
    await writeFile(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
    for (const [position, { reference }] of chosen.entries()) {
      const selector = { kind: 'position', position } as const;
      requests.push({ reference, directory, selector, isDisposable: true, origin: path, place: `archive ${path}` });
    }
  }
  return { requests, notes };
}

const MAX_NAMED = 20;

function leftOutNote(path: string, leftOut: readonly string[]): string {
  const more = leftOut.length > MAX_NAMED ? ` and ${leftOut.length - MAX_NAMED} more` : '';
  const what = leftOut.length === 1 ? 'is no image, and is left out' : 'are no images, and are left out';
  return oneLine(`archive ${path}: ${leftOut.slice(0, MAX_NAMED).join(', ')}${more} ${what}`);
}

/** Of several images with one name, that for `arch`. @throws AppError `bundle/source` */
function chooseImages(images: readonly ArchiveImage[], arch: string, path: string): ArchiveImage[] {
  const byName = new Map<string, ArchiveImage[]>();
  for (const image of images) {
    const name = formatReference(image.reference);
    byName.set(name, [...(byName.get(name) ?? []), image]);
  }
  if (byName.size === 0) throw badArchive(path, 'it lists no image');
  if (byName.size > limits.tags) {
    throw badArchive(path, `it lists ${byName.size} names of images, and ${limits.tags} are allowed`);
  }
  return [...byName].map(([name, all]) => {
    const digests = new Set(all.map(({ descriptor }) => descriptor.digest));
    const fitting = digests.size === 1 ? all : all.filter(({ architecture }) => architecture === arch);
    const [first] = fitting;
    if (first !== undefined && new Set(fitting.map(({ descriptor }) => descriptor.digest)).size === 1) return first;
    throw badArchive(path, `${name} names ${digests.size} images, and not just one of them is for ${arch}`);
  });
}

export interface ArchiveImage {
  readonly descriptor: Descriptor;
  readonly reference: Reference;
  /** GOARCH of its entry, where the entry has one. */
  readonly architecture?: string;
}

export interface ArchiveIndex {
  readonly images: readonly ArchiveImage[];
  /** Signatures of images, attestations and SBOMs, which are no images themselves. */
  readonly attached: readonly ArchiveImage[];
  /** Names of charts, files, referrers and other artifacts, each with its media type. */
  readonly leftOut: readonly string[];
  /** Manifests that are not in the archive, since they are made of what it lists. */
  readonly made: ReadonlyMap<Digest, Buffer>;
}

/** containerd's and Docker's annotation for the full name of an image. */
const IMAGE_NAME = 'io.containerd.image.name';
const ATTACHED = /^sha256-[0-9a-f]{64}\.(?:sig|att|sbom)$/;
/** distribution-spec 1.1, "Referrers Tag Schema": an index of what refers to a manifest. */
const REFERRERS = /^sha256-[0-9a-f]{64}$/;
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
      annotations: v.exactOptional(v.nullable(v.object({ [REF_NAME]: text, [IMAGE_NAME]: text }))),
    }),
  ),
});
const typed = v.looseObject({ mediaType: v.string() });
const anyManifest = v.looseObject({ config: v.exactOptional(typed), layers: v.exactOptional(v.array(typed)) });
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
async function archiveIndexOf(
  members: ArchiveMembers,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<ArchiveIndex> {
  const load = async (name: string) => {
    if (!members.files.has(name) && !members.links.has(name)) return undefined;
    return read(members.fileOf(name).digest, limits.indexBytes);
  };
  const index = await load('index.json');
  if (index !== undefined) return imagesOfLayout(members, index, read);
  const manifest = await load('manifest.json');
  if (manifest !== undefined) return imagesOfDocker(members, manifest);
  throw badArchive(members.path, 'it has neither index.json nor manifest.json, so it is no archive of images');
}

/** image-spec, image-layout.md: skopeo, podman, containerd and Docker from 25 on write it. */
async function imagesOfLayout(
  { path, files }: ArchiveMembers,
  bytes: Buffer,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<ArchiveIndex> {
  const { manifests } = parseJson(bytes, layoutIndex, `index.json of ${path}`, 'bundle/source', limits.treeItems);
  const all = manifests.map(({ mediaType, digest, size, platform, annotations }) => {
    if (!isDigest(digest)) throw badArchive(path, `${JSON.stringify(digest)} in index.json is no sha256 digest`);
    const name = annotations?.[IMAGE_NAME] ?? annotations?.[REF_NAME];
    const reference = name === undefined ? undefined : referenceOf(name);
    const architecture = platform?.architecture;
    return { descriptor: { mediaType, digest, size }, name, reference, ...defined({ architecture }) };
  });
  const named = new Set(all.flatMap(({ reference, descriptor }) => (reference === undefined ? [] : descriptor.digest)));
  const stored = new Set([...files.values()].map(({ digest }) => digest));
  const images: ArchiveImage[] = [];
  const attached: ArchiveImage[] = [];
  const leftOut: string[] = [];
  for (const { name, reference, ...image } of all) {
    const { digest } = image.descriptor;
    if (reference !== undefined && ATTACHED.test(reference.tag ?? '')) {
      attached.push({ ...image, reference });
      continue;
    }
    // Under Kubernetes containerd lists an image by its id, too.
    if (reference === undefined && named.has(digest)) continue;
    const type = stored.has(digest) ? await artifactTypeOf(image.descriptor, reference, path, read) : undefined;
    if (type !== undefined) leftOut.push(`${name ?? digest} (${type})`);
    else if (reference !== undefined) images.push({ ...image, reference });
    else throw unnamed(path, digest, name);
  }
  return { images, attached, leftOut, made: new Map() };
}

function unnamed(path: string, digest: Digest, name: string | undefined) {
  const shown = name === undefined ? 'no name' : `no full name, only ${JSON.stringify(name)}`;
  const message = `image ${digest} has ${shown}: give it as --image REFERENCE=oci-archive:${path}, or save it by its name`;
  return badArchive(path, message);
}

/** The media type of a chart, a file, a signature or another artifact; undefined for an image. */
async function artifactTypeOf(
  { mediaType, digest }: Descriptor,
  reference: Reference | undefined,
  path: string,
  read: (digest: Digest, maxBytes: number) => Promise<Buffer>,
): Promise<string | undefined> {
  if (!manifestMediaTypes.has(mediaType) || REFERRERS.test(reference?.tag ?? '')) return mediaType;
  if (indexMediaTypes.has(mediaType)) return undefined;
  const bytes = await read(digest, limits.manifestBytes);
  const { config, layers = [] } = parseJson(bytes, anyManifest, `manifest ${digest} of ${path}`, 'bundle/source');
  if (config !== undefined && !configMediaTypes.has(config.mediaType)) return config.mediaType;
  return layers.some((layer) => LAYER.test(layer.mediaType)) ? undefined : layers[0]?.mediaType;
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
