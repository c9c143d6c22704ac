import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { tagsInWork } from '../assess/assess-order.ts';
import type { Digest } from '../model/digest.ts';
import { parseReference, repositoryOf } from '../model/reference.ts';
import { artifactTagsOf, type TagGoal, tagGoalsOf } from '../release/tag-goals.ts';
import { attachedOwners, skippedTags, tagOwners, withdrawnAmong } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import { isPreloading } from './pull-plan.ts';
import { isServed, repositoriesInWork } from './wanted-files.ts';

export interface CatalogEntry {
  readonly manifests: ReadonlySet<Digest>;
  /** The runtime's name of each image, such as `quay.io/coreos/etcd@sha256:…`. */
  readonly images: ReadonlyMap<Digest, string>;
  /** Attached tags, tags of releases that hold them, and tags of the release in activation. */
  readonly tags: ReadonlyMap<string, Digest>;
}

/** Keys are repositories (`quay.io/coreos/etcd`). All other requests get 404. */
export type Catalog = ReadonlyMap<string, CatalogEntry>;

export interface Arriving {
  readonly images: ReadonlySet<Digest>;
  /** Sizes are in bytes. Pulls wait for these layers while their medium is away. */
  readonly layers: ReadonlyMap<Digest, number>;
}

/**
 * Returns absent images with all missing layers at hand, and those that are being pulled. Once
 * CRI-O has a manifest from stickpin, it searches the layers nowhere else (docs/runtime-facts.md,
 * fact 12), so no other image is offered. containerd uses the image's own registry after a 404.
 */
export function arrivingImages({ running }: Memory, { bundles }: Assessment): Arriving {
  const images = new Set<Digest>();
  const layers = new Map<Digest, number>();
  for (const entry of bundles) {
    if (entry.withdrawn !== undefined) continue;
    const pullable = new Set(isPreloading(entry) ? entry.pullableImages : []);
    for (const image of entry.onlineImages) pullable.delete(image);
    for (const image of entry.absentImages) {
      if (!pullable.has(image) && !isPulledFromUs(image.reference, { running })) continue;
      images.add(image.digest);
      for (const index of image.layers) {
        const layer = entry.bundle.contents.layers[index];
        if (layer !== undefined) layers.set(layer.digest, layer.sizeBytes);
      }
    }
  }
  return { images, layers };
}

type ServePolicy = Pick<Policy, 'serve'>;

/**
 * Returns the catalog of all adopted bundles. Bundles whose trust was withdrawn offer nothing.
 * Repositories that the settings exclude offer only images that are loaded or activated now.
 * Attached tags (`sha256-<hex>.sig`) name a digest, so they are always offered. The first stream
 * that has one decides.
 */
export function catalogOf(memory: Memory, assessment: Assessment, policy: ServePolicy): Catalog {
  const catalog = new Map<string, GrowingEntry>();
  const trusted = assessment.bundles.filter(({ withdrawn }) => withdrawn === undefined);
  const owners = attachedOwners(trusted.map(({ bundle }) => bundle));
  const isInWork = workOf(memory, assessment);
  for (const entry of trusted) {
    const { bundle } = entry;
    for (const { reference, digest, attached = [] } of bundle.contents.images) {
      const { repository } = parseReference(reference);
      if (!isServed(repository, policy.serve) && !isInWork(entry)) continue;
      const offered = entryOf(catalog, repository);
      addImage(offered, digest, reference);
      for (const document of attached) {
        offered.manifests.add(document.digest);
        const isOwner = owners.get(`${repository}:${document.tag}`) === bundle.bundleId;
        if (isOwner) offered.tags.set(document.tag, document.digest);
      }
    }
  }
  for (const { bundle } of trusted) {
    for (const { reference, digest } of bundle.contents.artifacts ?? [])
      entryOf(catalog, repositoryOf(reference)).manifests.add(digest);
  }
  for (const { tag: name, digest } of heldTags(assessment, policy, artifactTagsOf)) {
    const { repository, tag } = parseReference(name);
    if (tag !== undefined) entryOf(catalog, repository).tags.set(tag, digest);
  }
  const held = [...heldTags(assessment, policy), ...tagsAfterProof(assessment, policy)];
  for (const goal of [...held, ...tagsInWork(memory, assessment)]) {
    const { repository, tag } = parseReference(goal.tag);
    const offered = entryOf(catalog, repository);
    addImage(offered, goal.digest, goal.reference);
    if (tag !== undefined) offered.tags.set(tag, goal.digest);
  }
  return catalog;
}

/** Returns tags that releases hold, without contested ones and those of the node's own images. */
export function heldTags(
  { bundles, tags }: Assessment,
  { serve }: ServePolicy,
  tagsOf = tagGoalsOf,
): readonly TagGoal[] {
  if (serve.activated !== 'digests-and-tags') return [];
  const skipped = skippedTags(tags);
  const owners = tagOwners(
    bundles.map(({ bundle }) => bundle),
    withdrawnAmong(bundles),
    tagsOf,
  );
  return [...new Set(owners.values())]
    .flatMap((owner) => tagsOf(owner).filter(({ tag }) => owners.get(tag) === owner))
    .filter(({ tag }) => !skipped.has(tag) && isServed(repositoryOf(tag), serve));
}

function tagsAfterProof({ tags }: Assessment, { serve }: ServePolicy): readonly TagGoal[] {
  if (serve.activated !== 'digests-and-tags') return [];
  const skipped = skippedTags(tags);
  return tags.afterProof.filter(({ tag }) => !skipped.has(tag) && isServed(repositoryOf(tag), serve));
}

export function workOf(memory: Memory, assessment: Assessment): (entry: BundleAssessment) => boolean {
  const moving = new Set(tagsInWork(memory, assessment).map(({ reference }) => reference));
  return (entry) =>
    repositoriesInWork(entry, memory).length > 0 ||
    memory.running.some(({ bundleId }) => bundleId === entry.bundle.bundleId) ||
    (moving.size > 0 && entry.bundle.contents.images.some(({ reference }) => moving.has(reference)));
}

function isPulledFromUs(reference: string, { running }: Pick<Memory, 'running'>): boolean {
  return running.some((task) => task.kind === 'pull' && task.reference === reference && task.online !== true);
}

interface GrowingEntry {
  readonly manifests: Set<Digest>;
  readonly images: Map<Digest, string>;
  readonly tags: Map<string, Digest>;
}

function addImage({ manifests, images }: GrowingEntry, digest: Digest, reference: string): void {
  manifests.add(digest);
  images.set(digest, reference);
}

function entryOf(catalog: Map<string, GrowingEntry>, repository: string): GrowingEntry {
  const entry = catalog.get(repository) ?? { manifests: new Set(), images: new Map(), tags: new Map() };
  catalog.set(repository, entry);
  return entry;
}

/** Found by `User-Agent`. It only decides the routing: a client may send any text. */
export type Client = 'runtime' | 'other';

export type Extent = 'whole' | 'documents' | 'partial';

interface ManifestRequest {
  readonly client: Client;
  readonly isArriving: boolean;
  readonly extent: Extent;
}

/** After a 404 the client uses the next registry. */
type ManifestAnswer = 'send' | 'withhold' | 'send-if-held';

/** CRI-O, containerd (docs/runtime-facts.md, fact 28), Docker and the embedded runtime match. */
const RUNTIMES = /^(?:cri-o|containerd|docker|stickpin)\//i;

export function clientOf(userAgent: string | undefined): Client {
  return userAgent !== undefined && RUNTIMES.test(userAgent) ? 'runtime' : 'other';
}

/**
 * Once a client has stickpin's manifest, it searches the layers nowhere else
 * (docs/runtime-facts.md, facts 12 and 50). So a manifest goes out only with its layers, or to a
 * runtime that has the image or loads it from stickpin.
 */
export function manifestAnswer({ client, isArriving, extent }: ManifestRequest): ManifestAnswer {
  if (extent === 'whole') return 'send';
  if (client === 'other') return 'withhold';
  if (isArriving) return 'send';
  return extent === 'documents' ? 'send-if-held' : 'withhold';
}
