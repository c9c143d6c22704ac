import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import type { RuntimeImage } from '../../domain/model/image.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { oneAtATime } from '../../platform/async/one-at-a-time.ts';
import { writeDurably } from '../config/durable-file.ts';
import { createNameIndex, type IndexEntry, NAME, readJson } from './name-index.ts';

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
  /** The image with this name (by tag or by digest). */
  find(name: string): Promise<RuntimeImage | undefined>;
  /** Gives an image a name. An image that had the name loses it. */
  setName(image: NamedImage, signal: AbortSignal): Promise<void>;
  /** Gives the image `of` another name. False when there is no entry with the name `of`. */
  addName(name: string, of: string, signal: AbortSignal): Promise<boolean>;
  removeName(name: string, signal: AbortSignal): Promise<void>;
  /** Removes all names of the image with this id. Its blobs stay. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void>;
  pins(): Promise<readonly string[]>;
  setPins(names: readonly string[], signal: AbortSignal): Promise<void>;
}

/** The {@link ImageLayout} at `directory`, which is created with the first name. */
export function createImageLayout(directory: string): ImageLayout {
  const pinsPath = join(directory, 'pins.json');
  const names = createNameIndex(directory);
  const inTurn = oneAtATime();
  const pins = async () => (await readJson<string[]>(pinsPath)) ?? [];
  const listed = async (entries: readonly IndexEntry[]) => listImages(entries, new Set(await pins()));
  return {
    pins,
    list: async () => listed([...(await names.entries()).values()]),
    find: async (name) => {
      const entries = await names.entries();
      const entry = entries.get(name);
      // Without an entry it may be the digest of a manifest that was selected from an index.
      const alike = [...entries.values()].filter((other) => entry === undefined || idOf(other) === idOf(entry));
      return (await listed(alike)).find(({ repoTags, repoDigests }) => [...repoTags, ...repoDigests].includes(name));
    },
    setName: (image, signal) => names.change((entries) => void entries.set(image.name, entryOf(image)), signal),
    addName: async (name, of, signal) => {
      if (!(await names.entries()).has(of)) return false;
      await names.change((entries) => {
        const entry = entries.get(of);
        if (entry !== undefined) entries.set(name, { ...entry, annotations: { ...entry.annotations, [NAME]: name } });
      }, signal);
      return (await names.entries()).has(name);
    },
    removeName: (name, signal) => names.change((entries) => void entries.delete(name), signal),
    removeImage: (imageId, signal) =>
      names.change((entries) => {
        for (const [name, entry] of entries) if (idOf(entry) === imageId) entries.delete(name);
      }, signal),
    setPins: (references, signal) =>
      inTurn(signal, async () => {
        await writeDurably({ path: pinsPath }, JSON.stringify([...new Set(references)].sort()));
      }),
  };
}

function idOf({ digest, annotations }: IndexEntry): string {
  return annotations[IMAGE_ID] ?? digest;
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
