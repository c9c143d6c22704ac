import type { Assessment } from '../assess/assess.ts';
import type { Digest } from '../model/digest.ts';
import { parseReference, repositoryOf } from '../model/reference.ts';
import { attachedOwners } from '../release/tag-claims.ts';
import type { Memory } from '../state/memory.ts';
import { tagsInWork } from './activation.ts';

/** What one repository offers on our registry. */
export interface CatalogEntry {
  /** Manifests and indexes that may be asked for by digest. */
  readonly manifests: ReadonlySet<Digest>;
  /** Layers and their sizes in bytes: what may be waited for while its medium is away. */
  readonly layers: ReadonlyMap<Digest, number>;
  /**
   * Tags that name one of them now: those attached to images by their digest, and while a release
   * is activated its own.
   */
  readonly tags: ReadonlyMap<string, Digest>;
}

/**
 * What the registry may serve, by repository (`quay.io/coreos/etcd`). Anything else is answered
 * 404.
 */
export type Catalog = ReadonlyMap<string, CatalogEntry>;

/**
 * Digests of images that our registry must not begin: the runtime lacks layers of them that are not
 * at hand, and CRI-O, once it has the manifest from us, would look for them nowhere else
 * (docs/runtime-facts.md, fact 12). What is being pulled from us has its manifest already, and
 * waits for its medium.
 */
export function withheldImages({ running }: Pick<Memory, 'running'>, { bundles }: Assessment): ReadonlySet<Digest> {
  const withheld = new Set<Digest>();
  for (const { absentImages, pullableImages, onlineImages } of bundles) {
    const online = new Set(onlineImages);
    const availableBlobs = new Set(pullableImages.filter((image) => !online.has(image)));
    for (const image of absentImages) {
      if (!availableBlobs.has(image) && !isBegunHere(image.reference, { running })) withheld.add(image.digest);
    }
  }
  return withheld;
}

/**
 * The catalog of all adopted bundles. Tags are offered only while they are given to their images,
 * since a tag names one image and an earlier move would be an upgrade that nobody asked for.
 * Bundles whose trust was withdrawn offer nothing. Attached tags (`sha256-<hex>.sig`) name a
 * digest, so they are always offered; where streams differ, that of the stream that came first.
 */
export function catalogOf(memory: Memory, assessment: Assessment): Catalog {
  const catalog = new Map<string, GrowingEntry>();
  const trusted = assessment.bundles.filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
  const owners = attachedOwners(trusted);
  for (const { bundle, onlineImages, withdrawn } of assessment.bundles) {
    if (withdrawn !== undefined) continue;
    const elsewhere = new Set(onlineImages.filter((image) => !isBegunHere(image.reference, memory)));
    for (const image of bundle.contents.images) {
      const entry = entryOf(catalog, parseReference(image.reference).repository);
      entry.manifests.add(image.digest);
      for (const { tag, digest } of image.attached ?? []) {
        entry.manifests.add(digest);
        if (owners.get(`${repositoryOf(image.reference)}:${tag}`) === bundle.bundleId) entry.tags.set(tag, digest);
      }
      // Nothing is promised that may never come: containerd asks the image's own registry for what
      // is answered 404 here.
      if (elsewhere.has(image)) continue;
      for (const index of image.layers) {
        const layer = bundle.contents.layers[index];
        if (layer !== undefined) entry.layers.set(layer.digest, layer.sizeBytes);
      }
    }
  }
  for (const { tag: text, digest } of tagsInWork(memory, assessment)) {
    const { repository, tag } = parseReference(text);
    const entry = entryOf(catalog, repository);
    entry.manifests.add(digest);
    if (tag !== undefined) entry.tags.set(tag, digest);
  }
  return catalog;
}

/**
 * Whether the image is being pulled from our registry: it waits for its medium, should that go
 * away.
 */
function isBegunHere(reference: string, { running }: Pick<Memory, 'running'>): boolean {
  return running.some((task) => task.kind === 'pull' && task.reference === reference && task.online !== true);
}

interface GrowingEntry {
  readonly manifests: Set<Digest>;
  readonly layers: Map<Digest, number>;
  readonly tags: Map<string, Digest>;
}

function entryOf(catalog: Map<string, GrowingEntry>, repository: string): GrowingEntry {
  const entry = catalog.get(repository) ?? { manifests: new Set(), layers: new Map(), tags: new Map() };
  catalog.set(repository, entry);
  return entry;
}
