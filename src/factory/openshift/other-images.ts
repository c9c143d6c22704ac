import type { ImageRequest, ImageSource } from '../../bundle/image-request.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import {
  checkStoredImage,
  isAttachedTag,
  type RegistryStorage,
  readStored,
  type StoredRepository,
} from '../archive/registry-storage.ts';

/** The registry of the medium's images, which the medium does not name. */
export interface OtherRegistry {
  /** The path of repositories, for example `openshift4`; empty: all of them. */
  readonly path: string;
  readonly registry: string;
}

interface OtherRequest {
  readonly path: string;
  readonly arch: string;
  readonly registries: readonly OtherRegistry[];
  readonly source: Omit<Extract<ImageSource, { readonly kind: 'layout' }>, 'selector'>;
}

/**
 * Images of the medium that are not of the release, by the registries that are named. A note names
 * those without one, and those that can't be read.
 */
export async function otherImages(
  storage: RegistryStorage,
  payload: ReadonlySet<Digest>,
  { path, arch, registries, source }: OtherRequest,
): Promise<{ readonly requests: readonly ImageRequest[]; readonly notes: readonly string[] }> {
  const requests: ImageRequest[] = [];
  const counts: string[] = [];
  const notes: string[] = [];
  for (const repository of storage.repositories) {
    const others = await othersIn(storage, repository, payload);
    const registry = registryOf(repository.name, registries);
    if (registry === undefined) {
      if (others.length > 0) counts.push(oneLine(`${repository.name} (${others.length})`));
      continue;
    }
    for (const digest of others) {
      const what = oneLine(`${repository.name} on ${path}`);
      try {
        await checkStoredImage(storage, digest, arch, what);
        const names = tagsOf(repository, digest).map((tag) => `:${tag}`);
        for (const name of names.length === 0 ? [''] : names) {
          const reference = parseReference(`${registry}/${repository.name}${name}@${digest}`);
          requests.push({ reference, source: { ...source, selector: { kind: 'digest', digest } } });
        }
      } catch (error) {
        notes.push(`an image is left out: ${reasonOf(error)}`);
      }
    }
  }
  if (counts.length > 0) {
    notes.push(`images on ${path} that are not part of the release are left out: ${counts.join(', ')}`);
  }
  return { requests, notes };
}

async function othersIn(
  storage: RegistryStorage,
  { name, tags, revisions }: StoredRepository,
  payload: ReadonlySet<Digest>,
): Promise<Digest[]> {
  const attached = new Set([...tags].filter(([tag]) => isAttachedTag(tag)).map(([, digest]) => digest));
  const children = new Set<Digest>();
  for (const digest of revisions) {
    const found = await readStored(storage, digest, name).catch(() => undefined);
    if (found?.document.kind === 'index') for (const child of found.document.manifests) children.add(child.digest);
  }
  return [...revisions].filter((one) => !payload.has(one) && !attached.has(one) && !children.has(one));
}

/** A tag that is only the digest, or its beginning, has no name. */
function tagsOf({ tags }: StoredRepository, digest: Digest): string[] {
  return [...tags].filter(([tag, of]) => of === digest && !digest.includes(tag)).map(([tag]) => tag);
}

/** The one with the longest path. */
function registryOf(name: string, registries: readonly OtherRegistry[]): string | undefined {
  const fitting = registries.filter(({ path }) => path === '' || name === path || name.startsWith(`${path}/`));
  return fitting.sort((a, b) => b.path.length - a.path.length)[0]?.registry;
}
