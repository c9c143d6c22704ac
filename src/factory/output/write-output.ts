import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isBundleTar } from '../../bundle/read/open-bundle.ts';
import type { Contents, Payload } from '../../domain/model/bundle.ts';
import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import type { StickFilesystem } from '../../domain/model/machine.ts';
import { type CreateOptions, listenerOf } from '../create-options.ts';
import { roomInImage, unitOf } from '../image/image-layout.ts';
import { imageTools, makeImage, ownMedium, requireTools } from '../image/make-image.ts';
import { buildDirectory, buildFile } from './staging.ts';
import { packDirectory, spreadOverVolumes, type VolumeRules } from './volumes.ts';

interface BuiltTree {
  readonly bundleId: BundleId;
  readonly payload: Payload;
  readonly contents: Contents;
}

interface TreeBuilder<Built extends BuiltTree> {
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
  const { out, filesystem, volumeBytes } = options;
  const output = new Output(options, builder, signal);
  if (filesystem !== undefined) await requireTools(imageTools[filesystem]);
  if (volumeBytes !== undefined) return output.writeVolumes(filesystem, volumeBytes);
  if (filesystem !== undefined) return output.writeImage(filesystem);
  return isBundleTar(out) ? output.writeTar() : buildDirectory(out, (staging) => output.build(staging), signal);
}

class Output<Built extends BuiltTree> {
  constructor(
    private readonly options: CreateOptions,
    private readonly builder: TreeBuilder<Built>,
    private readonly signal: AbortSignal,
  ) {}

  async build(tree: string): Promise<Built> {
    await mkdir(tree, { recursive: true });
    const built = await this.builder.fill(tree);
    await this.builder.check(tree);
    return built;
  }

  writeTar(): Promise<Built> {
    const { out, created } = this.options;
    return buildFile(out, async (staging) => {
      const tree = join(staging, 'tree');
      const path = join(staging, 'new.stickpin.tar');
      await mkdir(tree);
      const built = await this.builder.fill(tree);
      await packDirectory(tree, path, { created, onProgress: listenerOf(this.options) }, this.signal);
      await this.builder.check(path);
      return { path, built };
    });
  }

  writeImage(filesystem: StickFilesystem): Promise<Built> {
    return buildFile(this.options.out, async (staging) => {
      const medium = join(staging, 'medium');
      const built = await this.build(this.folderOn(medium));
      return { path: await this.imageOf(medium, join(staging, 'new.img'), filesystem, built), built };
    });
  }

  writeVolumes(
    filesystem: StickFilesystem | undefined,
    volumeBytes: number,
  ): Promise<Built & { readonly volumes: number }> {
    const fill = async (staging: string) => {
      const tree = join(staging, 'tree');
      const built = await this.build(tree);
      const { layers, artifacts = [] } = built.contents;
      // Documents are on each volume. The empty config of an artifact may be a layer, too.
      const configs = new Set(artifacts.map(({ config }) => config.digest));
      const held = layers.filter(({ digest, inBase }) => !inBase && !configs.has(digest));
      const spread = [...held, ...(built.payload.attachments ?? [])].map(({ digest }) => hexOf(digest));
      const rules = volumeRules({ filesystem, volumeBytes });
      const volumes = await spreadOverVolumes(tree, staging, { ...rules, spread }, this.signal);
      for (let at = 1; filesystem !== undefined && at <= volumes; at += 1) {
        const medium = join(staging, `medium-${at}`);
        await mkdir(dirname(this.folderOn(medium)), { recursive: true });
        await rename(join(staging, `${at}`), this.folderOn(medium));
        await this.imageOf(medium, join(staging, `${at}.img`), filesystem, built);
      }
      return { ...built, volumes };
    };
    return buildDirectory(this.options.out, fill, this.signal);
  }

  /** Removes its source. @returns its path */
  private async imageOf(medium: string, image: string, filesystem: StickFilesystem, { bundleId }: Built) {
    const { created, volumeBytes } = this.options;
    const files = await ownMedium(medium, created);
    const limit = volumeBytes === undefined ? {} : { maxBytes: volumeBytes };
    const options = { filesystem, created, seed: bundleId, ...limit, onProgress: listenerOf(this.options) };
    await makeImage(files, image, options, this.signal);
    await rm(medium, { recursive: true });
    return image;
  }

  private folderOn(medium: string): string {
    const { name, version, arch } = this.options;
    return join(medium, 'stickpin', `${name}-${version}-${arch}`);
  }
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
