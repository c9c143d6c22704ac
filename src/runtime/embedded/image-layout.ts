import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import { parseReference } from '../../domain/model/reference.ts';
import type { RuntimeImage } from '../../domain/model/runtime-image.ts';
import { oneAtATime } from '../../platform/async/one-at-a-time.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/durable-file.ts';
import { configError } from '../cri/runtime-error.ts';

/** Annotation for the name of an entry of `index.json` (image-spec, annotations.md). */
const NAME = 'org.opencontainers.image.ref.name';
/**
 * Annotation for the digest of the configuration. Names with the same digest are the same image.
 */
const IMAGE_ID = 'io.stickpin.image.id';
/** Annotation for the digest of the manifest that was selected from an index. */
const PLATFORM_MANIFEST = 'io.stickpin.image.manifest';

/** A name and its image. */
interface NamedImage {
  readonly name: string;
  /** The target of the name: a manifest or an index. */
  readonly target: Descriptor;
  readonly manifest: Descriptor;
  readonly imageId: string;
}

/**
 * The names of an OCI image layout and their pins. A change is on the disk when its call resolves.
 */
export interface ImageLayout {
  list(): Promise<RuntimeImage[]>;
  /** Gives an image a name. An image that had the name loses it. */
  setName(image: NamedImage, signal: AbortSignal): Promise<void>;
  removeName(name: string, signal: AbortSignal): Promise<void>;
  /** Removes all names of the image with this id. Its blobs stay. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void>;
  pins(): Promise<readonly string[]>;
  setPins(names: readonly string[], signal: AbortSignal): Promise<void>;
}

interface IndexEntry extends Descriptor {
  readonly annotations: Readonly<Record<string, string>>;
}

/** The {@link ImageLayout} at `directory`, which is created with the first name. */
export function createImageLayout(directory: string): ImageLayout {
  const indexPath = join(directory, 'index.json');
  const pinsPath = join(directory, 'pins.json');
  // Each change reads the whole list and writes it back.
  const inTurn = oneAtATime();
  const entries = async () => (await readJson<{ manifests: IndexEntry[] }>(indexPath))?.manifests ?? [];
  const pins = async () => (await readJson<string[]>(pinsPath)) ?? [];
  const replace = async (isReplaced: (entry: IndexEntry) => boolean, added: readonly IndexEntry[]) => {
    const others = (await entries()).filter((entry) => !isReplaced(entry));
    await writeDurably({ path: join(directory, 'oci-layout') }, JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    await writeDurably(
      { path: indexPath },
      JSON.stringify({ schemaVersion: 2, mediaType, manifests: [...others, ...added] }),
    );
  };
  return {
    pins,
    list: async () => listImages(await entries(), new Set(await pins())),
    setName: (image, signal) => inTurn(signal, () => replace(isNamed(image.name), [entryOf(image)])),
    removeName: (name, signal) => inTurn(signal, () => replace(isNamed(name), [])),
    removeImage: (imageId, signal) =>
      inTurn(signal, () => replace(({ digest, annotations }) => (annotations[IMAGE_ID] ?? digest) === imageId, [])),
    setPins: (names, signal) =>
      inTurn(signal, async () => {
        await writeDurably({ path: pinsPath }, JSON.stringify([...new Set(names)].sort()));
      }),
  };
}

function isNamed(name: string): (entry: IndexEntry) => boolean {
  return ({ annotations }) => annotations[NAME] === name;
}

function entryOf({ name, target, manifest, imageId }: NamedImage): IndexEntry {
  return { ...target, annotations: { [NAME]: name, [IMAGE_ID]: imageId, [PLATFORM_MANIFEST]: manifest.digest } };
}

function listImages(entries: readonly IndexEntry[], pins: ReadonlySet<string>): RuntimeImage[] {
  const byId = new Map<string, { repoTags: Set<string>; repoDigests: Set<string> }>();
  for (const { digest, annotations } of entries) {
    const { [NAME]: name = '', [IMAGE_ID]: id = digest, [PLATFORM_MANIFEST]: manifest = digest } = annotations;
    const image = byId.get(id) ?? { repoTags: new Set(), repoDigests: new Set() };
    byId.set(id, image);
    const { repository, tag } = parseReference(name);
    if (tag !== undefined) image.repoTags.add(name);
    // An image from an index is listed with both digests, as in CRI-O (docs/runtime-facts.md, fact
    // 19).
    for (const each of [digest, manifest]) image.repoDigests.add(`${repository}@${each}`);
  }
  return [...byId].map(([imageId, { repoTags, repoDigests }]) => ({
    imageId,
    repoTags: [...repoTags].sort(),
    repoDigests: [...repoDigests].sort(),
    pinned: [...repoTags, ...repoDigests].some((name) => pins.has(name)),
  }));
}

async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readIfPresent(path);
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch (error) {
    throw configError(`${path} is damaged: remove the directory it lies in and load the images again`, error);
  }
}
