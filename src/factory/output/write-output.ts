import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isBundleTar } from '../../bundle/read/open-bundle.ts';
import type { Contents, Payload } from '../../domain/model/bundle.ts';
import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import type { StickFilesystem } from '../../domain/model/stick.ts';
import { type CreateOptions, listenerOf } from '../create-options.ts';
import { roomInImage, unitOf } from '../image/image-layout.ts';
import { imageTools, makeImage, ownMedium, requireTools } from '../image/make-image.ts';
import { buildDirectory, buildFile } from './staging.ts';
import { packDirectory, spreadOverVolumes, type VolumeRules } from './volumes.ts';

export interface BuiltTree {
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
}

export interface TreeBuilder<Built extends BuiltTree> {
  /** Fills an empty folder. */
  readonly fill: (tree: string) => Promise<Built>;
  /** Reads the bundle at this path as a node would. */
  readonly check: (path: string) => Promise<void>;
}

/**
 * A folder, a tar, an image, or volumes; all or nothing.
 *
 * @throws AppError `bundle/tool`; as `buildDirectory()`; errors of `fill` and `check`
 */
export async function writeOutput<Built extends BuiltTree>(
  options: CreateOptions,
  builder: TreeBuilder<Built>,
  signal: AbortSignal,
): Promise<Built & { readonly volumes?: number }> {
  if (options.filesystem !== undefined) await requireTools(imageTools[options.filesystem]);
  if (options.volumeBytes !== undefined) return writeVolumes(options, options.volumeBytes, builder, signal);
  if (options.filesystem !== undefined) return writeImage(options, options.filesystem, builder, signal);
  return isBundleTar(options.out) ? writeTar(options, builder, signal) : writeFolder(options, builder, signal);
}

function writeFolder<Built extends BuiltTree>(
  options: CreateOptions,
  builder: TreeBuilder<Built>,
  signal: AbortSignal,
): Promise<Built> {
  return buildDirectory(
    options.out,
    async (staging) => {
      const built = await builder.fill(staging);
      await builder.check(staging);
      return built;
    },
    signal,
  );
}

function writeTar<Built extends BuiltTree>(
  options: CreateOptions,
  builder: TreeBuilder<Built>,
  signal: AbortSignal,
): Promise<Built> {
  return buildFile(options.out, async (staging) => {
    const tree = join(staging, 'tree');
    const path = join(staging, 'new.stickpin.tar');
    await mkdir(tree);
    const built = await builder.fill(tree);
    await packDirectory(tree, path, { created: options.created, onProgress: listenerOf(options) }, signal);
    await builder.check(path);
    return { path, built };
  });
}

async function buildTree<Built extends BuiltTree>(tree: string, { fill, check }: TreeBuilder<Built>): Promise<Built> {
  await mkdir(tree, { recursive: true });
  const built = await fill(tree);
  await check(tree);
  return built;
}

function writeImage<Built extends BuiltTree>(
  options: CreateOptions,
  filesystem: StickFilesystem,
  builder: TreeBuilder<Built>,
  signal: AbortSignal,
): Promise<Built> {
  return buildFile(options.out, async (staging) => {
    const medium = join(staging, 'medium');
    const built = await buildTree(bundleFolder(medium, options), builder);
    const path = await imageOf(medium, join(staging, 'new.img'), { ...options, filesystem }, built, signal);
    return { path, built };
  });
}

function writeVolumes<Built extends BuiltTree>(
  options: CreateOptions,
  volumeBytes: number,
  builder: TreeBuilder<Built>,
  signal: AbortSignal,
): Promise<Built & { readonly volumes: number }> {
  const { filesystem } = options;
  return buildDirectory(
    options.out,
    async (staging) => {
      const tree = join(staging, 'tree');
      const built = await buildTree(tree, builder);
      const held = built.contents.layers.filter((layer) => !layer.inBase);
      const spread = [...held, ...(built.payload.attachments ?? [])].map(({ digest }) => hexOf(digest));
      const rules = volumeRules({ filesystem, volumeBytes });
      const volumes = await spreadOverVolumes(tree, staging, { ...rules, spread }, signal);
      for (let at = 1; filesystem !== undefined && at <= volumes; at += 1) {
        const medium = join(staging, `medium-${at}`);
        await mkdir(dirname(bundleFolder(medium, options)), { recursive: true });
        await rename(join(staging, `${at}`), bundleFolder(medium, options));
        await imageOf(medium, join(staging, `${at}.img`), { ...options, filesystem, volumeBytes }, built, signal);
      }
      return { ...built, volumes };
    },
    signal,
  );
}

/** Makes an image and removes its source. @returns its path */
async function imageOf(
  medium: string,
  image: string,
  options: CreateOptions & { readonly filesystem: StickFilesystem },
  { bundleId }: BuiltTree,
  signal: AbortSignal,
): Promise<string> {
  const { filesystem, created, volumeBytes } = options;
  const onProgress = listenerOf(options);
  const limit = volumeBytes === undefined ? {} : { maxBytes: volumeBytes };
  await makeImage(
    await ownMedium(medium, created),
    image,
    { filesystem, created, seed: bundleId, ...limit, onProgress },
    signal,
  );
  await rm(medium, { recursive: true });
  return image;
}

export function volumeRules({
  filesystem,
  volumeBytes,
}: {
  readonly filesystem: StickFilesystem | undefined;
  readonly volumeBytes: number;
}): VolumeRules {
  if (filesystem === undefined) return { volumeBytes };
  const clusterBytes = unitOf(filesystem, volumeBytes);
  return { volumeBytes: roomInImage(volumeBytes), givenBytes: volumeBytes, clusterBytes };
}

function bundleFolder(medium: string, { name, version, arch }: CreateOptions): string {
  return join(medium, 'stickpin', `${name}-${version}-${arch}`);
}
