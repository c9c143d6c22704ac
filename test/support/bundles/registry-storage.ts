import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { SampleBlob, SampleImage } from './sample-image.ts';

/** An image in a repository of a stored registry, with its tags there. */
interface StoredImage {
  readonly repository: string;
  readonly image: SampleImage;
  readonly tags: readonly string[];
}

/**
 * Writes the storage of a registry of the distribution project (filesystem driver) below
 * `root/docker/registry/v2`.
 */
export function writeRegistryStorage(root: string, images: readonly StoredImage[]): void {
  for (const { repository, image, tags } of images) {
    for (const { digest, bytes } of image.blobs) write(root, blobPath(digest), bytes);
    const manifests = join('repositories', repository, '_manifests');
    for (const { digest } of [image.top, image.manifest]) {
      write(root, join(manifests, 'revisions/sha256', hexOf(digest), 'link'), digest);
    }
    for (const tag of tags) {
      write(root, join(manifests, 'tags', tag, 'current/link'), image.top.digest);
      write(root, join(manifests, 'tags', tag, 'index/sha256', hexOf(image.top.digest), 'link'), image.top.digest);
    }
    for (const { digest } of [image.config, ...image.layers]) {
      write(root, join('repositories', repository, '_layers/sha256', hexOf(digest), 'link'), digest);
    }
  }
}

/** Where a blob is in the storage. */
export function storedBlob(root: string, { digest }: Pick<SampleBlob, 'digest'>): string {
  return join(root, 'docker/registry/v2', blobPath(digest));
}

function blobPath(digest: string): string {
  return join('blobs/sha256', hexOf(digest).slice(0, 2), hexOf(digest), 'data');
}

function hexOf(digest: string): string {
  return digest.slice('sha256:'.length);
}

function write(root: string, path: string, content: string | Buffer): void {
  const file = join(root, 'docker/registry/v2', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}
