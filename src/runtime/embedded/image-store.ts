import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { ImageContent, RuntimeImage } from '../../domain/model/image.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import type { ContentCheck } from '../../ports/runtime.ts';
import { writeDurably } from '../config/config-file.ts';
import { type BlobState, CheckedBlobs } from '../cri/checked-blobs.ts';
import { configError } from '../cri/runtime-error.ts';

/** Annotation: digest of the configuration. Names with the same digest are the same image. */
const IMAGE_ID = 'io.stickpin.image.id';
/** Annotation: digest of the manifest that was selected from an index. */
const PLATFORM_MANIFEST = 'io.stickpin.image.manifest';
/** Annotation of the index: a JSON list of references. */
const PINS = 'io.stickpin.pins';

/** image-spec, annotations.md: the name of an entry of `index.json`. */
const NAME = 'org.opencontainers.image.ref.name';

interface IndexEntry extends Descriptor {
  readonly annotations: Readonly<Record<string, string>>;
}

/** `index.json` of an OCI image layout. */
interface Index {
  /** The entries by name. */
  readonly entries: Map<string, IndexEntry>;
  pins: readonly string[];
}

interface PulledImage {
  /** A manifest or an index. */
  readonly target: Descriptor;
  readonly manifest: Digest;
  readonly imageId: Digest;
}

/** The names and pins of an OCI image layout. INVARIANT: one change at a time. */
export class ImageLayout {
  private readonly path: string;
  private readonly inTurn = oneAtATime();
  private cached: { readonly version: string; readonly index: Index } | undefined;

  constructor(private readonly directory: string) {
    this.path = join(directory, 'index.json');
  }

  async list(): Promise<RuntimeImage[]> {
    const { entries, pins } = await this.read();
    return listImages([...entries.values()], new Set(pins));
  }

  async find(name: string): Promise<RuntimeImage | undefined> {
    const { entries, pins } = await this.read();
    const entry = entries.get(name);
    // A name without an entry may be the digest of a manifest that was selected from an index.
    const alike = [...entries.values()].filter((other) => entry === undefined || idOf(other) === idOf(entry));
    const listed = listImages(alike, new Set(pins));
    return listed.find(({ imageId, repoTags, repoDigests }) => [imageId, ...repoTags, ...repoDigests].includes(name));
  }

  /** An image that had the name loses it. */
  async setName(name: string, { target, manifest, imageId }: PulledImage, signal: AbortSignal): Promise<void> {
    const { mediaType, digest, size } = target;
    const annotations = { [NAME]: name, [IMAGE_ID]: imageId, [PLATFORM_MANIFEST]: manifest };
    await this.change(({ entries }) => void entries.set(name, { mediaType, digest, size, annotations }), signal);
  }

  /** Returns false when there is no entry with the name `of`. */
  async addName(name: string, of: string, signal: AbortSignal): Promise<boolean> {
    const { entries } = await this.change(({ entries }) => {
      const entry = entries.get(of);
      if (entry !== undefined) entries.set(name, { ...entry, annotations: { ...entry.annotations, [NAME]: name } });
    }, signal);
    return entries.has(of);
  }

  async removeName(name: string, signal: AbortSignal): Promise<void> {
    await this.change(({ entries }) => void entries.delete(name), signal);
  }

  /** Removes all its names. Its blobs stay. */
  async removeImage(imageId: string, signal: AbortSignal): Promise<void> {
    await this.change(({ entries }) => {
      for (const [name, entry] of entries) if (idOf(entry) === imageId) entries.delete(name);
    }, signal);
  }

  async pins(): Promise<readonly string[]> {
    return (await this.read()).pins;
  }

  async setPins(names: readonly string[], signal: AbortSignal): Promise<void> {
    await this.change((index) => {
      index.pins = [...new Set(names)].sort();
    }, signal);
  }

  /** Nothing has to survive a power cut. @returns the changed index */
  private change(change: (index: Index) => void, signal: AbortSignal): Promise<Index> {
    return this.inTurn(signal, async () => {
      const { entries, pins } = await this.read();
      const index: Index = { entries: new Map(entries), pins };
      change(index);
      const mediaType = 'application/vnd.oci.image.index.v1+json';
      const annotations = { [PINS]: JSON.stringify(index.pins) };
      const document = { schemaVersion: 2, mediaType, manifests: [...index.entries.values()], annotations };
      await this.write('oci-layout', { imageLayoutVersion: '1.0.0' });
      await this.write('index.json', document);
      return index;
    });
  }

  private async write(name: string, document: object): Promise<void> {
    await writeDurably({ path: join(this.directory, name), isVolatile: true }, JSON.stringify(document));
  }

  /** Every write makes a new file. @throws AppError `runtime/config` */
  private async read(): Promise<Index> {
    const found = await stat(this.path, { bigint: true }).catch(() => undefined);
    const version = found === undefined ? '' : `${found.ino} ${found.mtimeNs} ${found.size}`;
    if (this.cached?.version !== version) this.cached = { version, index: await readIndex(this.path) };
    return this.cached.index;
  }
}

interface WrittenIndex {
  readonly manifests: readonly IndexEntry[];
  readonly annotations?: Readonly<Record<string, string>>;
}

async function readIndex(path: string): Promise<Index> {
  const text = (await readIfPresent(path)) ?? '{"manifests":[]}';
  try {
    const { manifests, annotations } = JSON.parse(text) as WrittenIndex;
    const entries = new Map(manifests.map((entry) => [entry.annotations[NAME] ?? '', entry]));
    return { entries, pins: JSON.parse(annotations?.[PINS] ?? '[]') as string[] };
  } catch (error) {
    throw configError(`${path} is damaged: remove the directory it lies in and load the images again`, error);
  }
}

function idOf({ digest, annotations }: IndexEntry): string {
  return annotations[IMAGE_ID] ?? digest;
}

function listImages(entries: readonly IndexEntry[], pins: ReadonlySet<string>): RuntimeImage[] {
  const byId = new Map<string, { repoTags: Set<string>; repoDigests: Set<string> }>();
  for (const { digest, annotations } of entries) {
    const { [NAME]: name = '', [IMAGE_ID]: id = digest, [PLATFORM_MANIFEST]: manifest = digest } = annotations;
    const image = byId.get(id) ?? { repoTags: new Set(), repoDigests: new Set() };
    byId.set(id, image);
    const { repository, tag } = parseReference(name);
    if (tag !== undefined) image.repoTags.add(name);
    // An image from an index has both digests, as in CRI-O (docs/runtime-facts.md, fact 19).
    for (const each of [digest, manifest]) image.repoDigests.add(`${repository}@${each}`);
  }
  return [...byId].map(([imageId, { repoTags, repoDigests }]) => ({
    imageId,
    repoTags: [...repoTags].sort(),
    repoDigests: [...repoDigests].sort(),
    pinned: [...repoTags, ...repoDigests].some((name) => pins.has(name)),
  }));
}

export function openContentCheck(layout: Pick<ImageLayout, 'find'>, pathOf: (digest: Digest) => string): ContentCheck {
  const blobs = new CheckedBlobs((digest, onBytes, signal) => readWhole(pathOf(digest), digest, onBytes, signal));
  return {
    check: async (image, onBytes, signal): Promise<ImageContent> => {
      const faults = await blobs.faultsOf(image, onBytes, signal);
      if ((await layout.find(image.reference)) === undefined) {
        return { kind: 'absent', faults: faults.filter(({ kind }) => kind === 'blob') };
      }
      return faults.length === 0 ? { kind: 'whole', by: 'bytes' } : { kind: 'broken', faults };
    },
  };
}

async function readWhole(
  path: string,
  digest: Digest,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<BlobState> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path, { signal })) {
      hash.update(chunk as Buffer);
      onBytes((chunk as Buffer).length);
    }
  } catch (error) {
    signal.throwIfAborted();
    return systemCodeOf(error) === 'ENOENT' ? 'absent' : 'unreadable';
  }
  return `sha256:${hash.digest('hex')}` === digest ? 'whole' : 'altered';
}
