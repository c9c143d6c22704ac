import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { status as grpcStatus } from '@grpc/grpc-js';
import type { Containers } from '../cri/containers.ts';
import { CriError } from '../cri/cri-error.ts';
import type { CrioState } from '../crio-state.ts';
import type { Log } from '../log.ts';
import type { DoubleOptions } from '../options.ts';
import { type ArtifactStore, canonicalName, createArtifactStore, type StoredArtifact } from './artifact-store.ts';
import { type ImageName, parseImageName, repositoryOf } from './image-name.ts';
import { removeImageName } from './image-names.ts';
import { createImageReader, imagesDirectory, type StoredImage } from './image-store.ts';
import { createPulls, type Pulls } from './pulls.ts';
import type { Skopeo } from './skopeo.ts';

/**
 * Messages of the CRI as `@grpc/proto-loader` gives and takes them: snake case, 64-bit numbers as
 * strings.
 */
interface ImageRequest {
  readonly image?: { readonly image?: string } | null;
  readonly filter?: { readonly image?: { readonly image?: string } | null } | null;
  readonly auth?: { readonly username?: string; readonly password?: string; readonly auth?: string } | null;
  readonly verbose?: boolean;
}

type Handler = (request: ImageRequest, signal: AbortSignal) => Promise<object>;

/**
 * The calls of `runtime.v1.ImageService` by name. They throw `CriError`, or another error that
 * becomes gRPC's Unknown.
 */
export type ImageService = Readonly<
  Record<'ListImages' | 'ImageStatus' | 'PullImage' | 'RemoveImage' | 'ImageFsInfo', Handler>
>;

/** What the calls work with. */
export interface ImageServiceDeps {
  readonly options: DoubleOptions;
  readonly state: CrioState;
  readonly skopeo: Skopeo;
  readonly containers: Containers;
  readonly log: Log;
}

/** ImageService over the real storage (docs/runtime-facts.md, facts 8 to 19). */
export function createImageService(deps: ImageServiceDeps): ImageService {
  const { options, state } = deps;
  const { images } = createImageReader(options);
  const artifacts = createArtifactStore(options, deps.skopeo);
  const pulls = createPulls({ ...deps, artifacts });
  const listed = (artifact: StoredArtifact) => criArtifact(artifact, state);
  return {
    ListImages: async ({ filter }) => {
      const wanted = filter?.image?.image ?? '';
      const found = wanted === '' ? await images() : [await findImage(images, wanted, options.registriesFile)];
      const beside = wanted === '' ? await artifacts.list() : [await artifacts.find(wanted)];
      const both = [
        ...found.map((image) => image && criImage(image, state)),
        ...beside.map((artifact) => artifact && listed(artifact)),
      ];
      return { images: both.filter((image) => image !== undefined) };
    },
    ImageStatus: async ({ image, verbose }) => {
      const found = await findImage(images, named(image), options.registriesFile);
      if (found === undefined) {
        const artifact = await artifacts.find(named(image));
        return artifact === undefined ? {} : { image: listed(artifact) };
      }
      const info = { info: JSON.stringify({ labels: found.labels }) };
      const spec = { annotations: found.annotations };
      return { image: { ...criImage(found, state), spec }, ...(verbose && { info }) };
    },
    PullImage: createPullHandler(deps, pulls, images, artifacts),
    RemoveImage: createRemoveHandler(deps, images, artifacts),
    ImageFsInfo: createFilesystemHandler(deps, pulls),
  };
}

/**
 * The sizes of all files of the storage. CRI-O fails when one of them goes away while it counts, as
 * the staged `images.json` does when an image is committed. Here every so-many-th call while a pull
 * runs fails, so that each test of a preload meets it.
 */
function createFilesystemHandler({ options, log }: ImageServiceDeps, pulls: Pulls): Handler {
  let callsBesidePulls = 0;
  return async () => {
    const directory = imagesDirectory(options);
    if (pulls.areRunning()) callsBesidePulls += 1;
    if (pulls.areRunning() && options.lostFileEvery > 0 && callsBesidePulls % options.lostFileEvery === 0) {
      const message = `lstat ${join(directory, `.tmp-images.json${callsBesidePulls}`)}: no such file or directory`;
      log.warn(`ImageFsInfo: ${message}`);
      throw new Error(message);
    }
    const usage = filesystemUsage(directory);
    return { image_filesystems: [usage], container_filesystems: [usage] };
  };
}

function createPullHandler(
  deps: ImageServiceDeps,
  pulls: Pulls,
  images: () => Promise<StoredImage[]>,
  artifacts: ArtifactStore,
): Handler {
  return async ({ image, auth }, signal) => {
    deps.log.info(`Pulling image: ${image?.image ?? ''}`);
    const name = parseImageName(image?.image ?? '', deps.options.registriesFile);
    const failure = await pulls.pull(name.text, credentialsOf(auth), signal);
    if (failure !== undefined) {
      deps.log.warn(`Pulling ${name.text} failed: ${failure.text}`);
      throw new CriError(failure.isCancelled ? grpcStatus.CANCELLED : grpcStatus.UNKNOWN, failure.text);
    }
    const stored = byName(await images(), name) ?? (await artifacts.find(name.text));
    if (stored === undefined) throw new Error(`resolve pulled image ${name.text}: not found in container storage`);
    deps.log.info(`Pulled image: ${name.text}`);
    return { image_ref: stored.id };
  };
}

/**
 * Removing by id deletes the image with all its names; by name only that name, and the image with
 * its last one. Pins guard neither.
 */
function createRemoveHandler(
  deps: ImageServiceDeps,
  images: () => Promise<StoredImage[]>,
  artifacts: ArtifactStore,
): Handler {
  const { options, skopeo, containers } = deps;
  const remove = async (image: StoredImage) => {
    const user = containers.list().find((container) => container.image_id === image.id);
    if (user !== undefined) throw new Error(`delete image: image used by ${user.id}: image is in use by a container`);
    const { ok, message } = await skopeo.deleteImage(image.id);
    if (!ok) throw new Error(`delete image: ${message}`);
  };
  return async ({ image }) => {
    const wanted = named(image);
    const artifact = await artifacts.find(wanted);
    if (artifact !== undefined && artifact.id !== wanted) await artifacts.remove(artifact);
    const stored = await images();
    const byId = byIdPrefix(stored, wanted);
    if (byId !== undefined) await remove(byId);
    if (byId !== undefined || /^[0-9a-f]{64}$/.test(wanted)) return {};
    const name = parseImageName(wanted, options.registriesFile);
    const found = byName(stored, name);
    if (found === undefined) return {};
    if (found.names.some((other) => other !== name.text)) {
      await removeImageName(imagesDirectory(options), found.id, name.text);
    } else {
      await remove(found);
    }
    return {};
  };
}

function criArtifact(artifact: StoredArtifact, state: CrioState): object {
  const { id, name, sizeBytes } = artifact;
  const canonical = canonicalName(artifact);
  return {
    id,
    repo_tags: name.includes('@') ? [] : [name],
    repo_digests: [canonical],
    size: sizeBytes,
    username: '',
    pinned: state.isPinned([name, canonical]),
  };
}

function criImage(image: StoredImage, state: CrioState): object {
  const tags = image.names.filter((name) => !name.includes('@'));
  const isNumber = /^\d+$/.test(image.user.split(':')[0] ?? '');
  const [user = ''] = image.user.split(':');
  return {
    id: image.id,
    repo_tags: tags.sort(),
    repo_digests: repoDigests(image),
    size: image.sizeBytes,
    ...(isNumber ? { uid: { value: user } } : { username: user }),
    pinned: state.isPinned(image.names),
  };
}

/**
 * Names by digest: the stored ones, and each repository of the image with each digest of it,
 * whether it was pulled so or not.
 */
function repoDigests(image: StoredImage): string[] {
  const stored = image.names.filter((name) => name.includes('@'));
  const combined = image.names.flatMap((name) => image.digests.map((digest) => `${repositoryOf(name)}@${digest}`));
  const all = [...new Set([...stored, ...combined])].sort();
  const [previous] = image.namesHistory;
  if (all.length > 0 || previous === undefined || image.digests[0] === undefined) return all;
  return [`${previous.split(':')[0]}@${image.digests[0]}`];
}

async function findImage(
  images: () => Promise<StoredImage[]>,
  wanted: string,
  registriesFile: string,
): Promise<StoredImage | undefined> {
  const stored = await images();
  const byId = byIdPrefix(stored, wanted);
  if (byId !== undefined || /^[0-9a-f]{64}$/.test(wanted)) return byId;
  return byName(stored, parseImageName(wanted, registriesFile));
}

function byIdPrefix(images: readonly StoredImage[], wanted: string): StoredImage | undefined {
  if (!/^[0-9a-f]{3,64}$/.test(wanted)) return undefined;
  const matches = images.filter((image) => image.id.startsWith(wanted));
  return matches.length === 1 ? matches[0] : undefined;
}

/**
 * By the stored name; a name by digest also finds an image of that digest that has any name in the
 * same repository.
 */
function byName(images: readonly StoredImage[], { text, repository, digest }: ImageName): StoredImage | undefined {
  return (
    images.find((image) => image.names.includes(text)) ??
    images.find(
      (image) =>
        digest !== undefined &&
        image.digests.includes(digest) &&
        image.names.some((name) => repositoryOf(name) === repository),
    )
  );
}

function named(image: ImageRequest['image']): string {
  if (!image?.image) throw new Error('no image specified');
  return image.image;
}

function credentialsOf(auth: ImageRequest['auth']): string | undefined {
  if (auth?.auth) return Buffer.from(auth.auth, 'base64').toString().replaceAll('\0', '');
  return auth?.username ? `${auth.username}:${auth.password ?? ''}` : undefined;
}

function filesystemUsage(directory: string): object {
  const { bytes, inodes } = usageBelow(directory);
  return {
    timestamp: `${BigInt(Date.now()) * 1_000_000n}`,
    fs_id: { mountpoint: directory },
    used_bytes: { value: bytes },
    inodes_used: { value: inodes },
  };
}

/**
 * Synchronous, since that takes a tenth of the time for the thousands of small files of a full
 * storage. What goes away meanwhile, with an image that skopeo deletes, is passed over.
 */
function usageBelow(path: string): { bytes: number; inodes: number } {
  const entry = lstatSync(path, { throwIfNoEntry: false });
  const sum = { bytes: entry?.size ?? 0, inodes: entry === undefined ? 0 : 1 };
  if (!entry?.isDirectory()) return sum;
  for (const name of namesIn(path)) {
    const { bytes, inodes } = usageBelow(join(path, name));
    sum.bytes += bytes;
    sum.inodes += inodes;
  }
  return sum;
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
