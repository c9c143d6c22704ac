import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DoubleOptions } from '../options.ts';
import { repositoryOf } from './image-name.ts';
import type { PullRequest, Skopeo, SkopeoResult } from './skopeo.ts';

export interface StoredArtifact {
  /** Hex digest of its manifest. */
  readonly id: string;
  /** As it was pulled. */
  readonly name: string;
  readonly sizeBytes: number;
}

/** Artifacts beside the storage of images (docs/runtime-facts.md, fact 51). */
export interface ArtifactStore {
  pull(request: PullRequest, signal: AbortSignal): Promise<SkopeoResult>;
  list(): Promise<StoredArtifact[]>;
  /** By its name, its id, or its name by digest. */
  find(wanted: string): Promise<StoredArtifact | undefined>;
  remove(artifact: StoredArtifact): Promise<void>;
}

/** One that has the config of an image is an artifact if it says so. */
export function isArtifact(manifest: string): boolean {
  const { config, artifactType } = JSON.parse(manifest) as { config?: { mediaType?: string }; artifactType?: string };
  return (
    config !== undefined &&
    (artifactType !== undefined || !/\.(?:image|container\.image)\./.test(config.mediaType ?? ''))
  );
}

export function canonicalName({ name, id }: StoredArtifact): string {
  return `${repositoryOf(name)}@sha256:${id}`;
}

/** A folder for each name, with the blobs and the name. */
export function createArtifactStore(options: DoubleOptions, skopeo: Skopeo): ArtifactStore {
  const root = join(options.root, 'artifacts');
  const folderOf = (name: string) => join(root, createHash('sha256').update(name).digest('hex'));
  const list = async () => {
    const names = (await readdir(root).catch(() => [])).filter((name) => /^[0-9a-f]{64}$/.test(name));
    return Promise.all(
      names.map(async (folder): Promise<StoredArtifact> => {
        const manifest = await readFile(join(root, folder, 'manifest.json'));
        const files = await readdir(join(root, folder));
        const sizes = await Promise.all(files.map(async (file) => (await stat(join(root, folder, file))).size));
        return {
          id: createHash('sha256').update(manifest).digest('hex'),
          name: await readFile(join(root, folder, 'name'), 'utf8'),
          sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
        };
      }),
    );
  };
  return {
    list,
    pull: async (request, signal) => {
      await mkdir(root, { recursive: true });
      const staged = await mkdtemp(join(root, '.staged-'));
      const ended = await skopeo.copyTo(staged, request, signal);
      if (ended.ok) {
        await writeFile(join(staged, 'name'), request.name);
        await rm(folderOf(request.name), { recursive: true, force: true });
        await rename(staged, folderOf(request.name));
      } else await rm(staged, { recursive: true, force: true });
      return ended;
    },
    find: async (wanted) => (await list()).find((one) => [one.id, one.name, canonicalName(one)].includes(wanted)),
    remove: ({ name }) => rm(folderOf(name), { recursive: true, force: true }),
  };
}
