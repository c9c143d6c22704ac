import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { ImageContent, RuntimeImage } from '../../domain/model/image.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
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

interface NamedImage {
  readonly name: string;
  /** A manifest or an index. */
  readonly target: Descriptor;
  readonly manifest: Descriptor;
  readonly imageId: string;
}

/** Created with the first name. A change is on the disk when its call resolves. */
export class ImageLayout {
  private readonly pinsPath: string;
  private readonly names: NameIndex;
  private readonly inTurn = oneAtATime();

  constructor(directory: string) {
    this.pinsPath = join(directory, 'pins.json');
    this.names = new NameIndex(directory);
  }

  async list(): Promise<RuntimeImage[]> {
    return this.listed([...(await this.names.entries()).values()]);
  }

  async find(name: string): Promise<RuntimeImage | undefined> {
    const entries = await this.names.entries();
    const entry = entries.get(name);
    // Without an entry it may be the digest of a manifest that was selected from an index.
    const alike = [...entries.values()].filter((other) => entry === undefined || idOf(other) === idOf(entry));
    const listed = await this.listed(alike);
    return listed.find(({ imageId, repoTags, repoDigests }) => [imageId, ...repoTags, ...repoDigests].includes(name));
  }

  /** An image that had the name loses it. */
  setName(image: NamedImage, signal: AbortSignal): Promise<void> {
    return this.names.change((entries) => void entries.set(image.name, entryOf(image)), signal);
  }

  /** False when there is no entry with the name `of`. */
  async addName(name: string, of: string, signal: AbortSignal): Promise<boolean> {
    if (!(await this.names.entries()).has(of)) return false;
    await this.names.change((entries) => {
      const entry = entries.get(of);
      if (entry !== undefined) entries.set(name, { ...entry, annotations: { ...entry.annotations, [NAME]: name } });
    }, signal);
    return (await this.names.entries()).has(name);
  }

  removeName(name: string, signal: AbortSignal): Promise<void> {
    return this.names.change((entries) => void entries.delete(name), signal);
  }

  /** With all its names. Its blobs stay. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void> {
    return this.names.change((entries) => {
      for (const [name, entry] of entries) if (idOf(entry) === imageId) entries.delete(name);
    }, signal);
  }

  async pins(): Promise<readonly string[]> {
    return (await readJson<string[]>(this.pinsPath)) ?? [];
  }

  async setPins(names: readonly string[], signal: AbortSignal): Promise<void> {
    const text = JSON.stringify([...new Set(names)].sort());
    await this.inTurn(signal, () => writeDurably({ path: this.pinsPath }, text));
  }

  private async listed(entries: readonly IndexEntry[]): Promise<RuntimeImage[]> {
    return listImages(entries, new Set(await this.pins()));
  }
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

/** Annotation for the name of an entry of `index.json` (image-spec, annotations.md). */
export const NAME = 'org.opencontainers.image.ref.name';

export interface IndexEntry extends Descriptor {
  readonly annotations: Readonly<Record<string, string>>;
}

type Change = (entries: Map<string, IndexEntry>) => void;

interface Batch {
  readonly changes: { readonly change: Change; readonly signal: AbortSignal }[];
  readonly written: Promise<void>;
}

/**
 * INVARIANT: one write at a time. Changes that come during a write are written together after it.
 */
export class NameIndex {
  private readonly path: string;
  private read: { readonly version: string; readonly entries: ReadonlyMap<string, IndexEntry> } | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private waiting: Batch | undefined;

  constructor(private readonly directory: string) {
    this.path = join(directory, 'index.json');
  }

  /** Read again when others changed the file. */
  async entries(): Promise<ReadonlyMap<string, IndexEntry>> {
    const version = await versionOf(this.path);
    if (this.read?.version !== version) this.read = { version, entries: await readEntries(this.path) };
    return this.read.entries;
  }

  /** On the disk when the call resolves. A change that is aborted before its turn is not made. */
  change(change: Change, signal: AbortSignal): Promise<void> {
    this.waiting ??= this.begin();
    this.waiting.changes.push({ change, signal });
    return untilAborted(this.waiting.written, signal);
  }

  private begin(): Batch {
    const changes: Batch['changes'] = [];
    const written = this.last.then(() => {
      this.waiting = undefined;
      return this.write(changes);
    });
    this.last = written.catch(() => undefined); // each caller handles the error
    return { changes, written };
  }

  private async write(changes: Batch['changes']): Promise<void> {
    const { path, directory } = this;
    const changed = new Map(await this.entries());
    const wanted = changes.filter(({ signal }) => !signal.aborted);
    if (wanted.length === 0) return;
    for (const { change } of wanted) change(changed);
    await writeDurably({ path: join(directory, 'oci-layout') }, JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    const manifests = [...changed.values()];
    await writeDurably({ path }, JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
    this.read = { version: await versionOf(path), entries: changed };
  }
}

/** Every write makes a new file. Empty when there is none. */
async function versionOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? '' : `${found.ino} ${found.mtimeNs} ${found.size}`;
}

async function readEntries(path: string): Promise<ReadonlyMap<string, IndexEntry>> {
  const { manifests = [] } = (await readJson<{ manifests: IndexEntry[] }>(path)) ?? {};
  return new Map(manifests.map((entry) => [entry.annotations[NAME] ?? '', entry]));
}

/** Undefined when there is none. @throws AppError `runtime/config` */
async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readIfPresent(path);
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch (error) {
    throw configError(`${path} is damaged: remove the directory it lies in and load the images again`, error);
  }
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
