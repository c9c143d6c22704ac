import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import {
  type SampleImage,
  type SampleLayer,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { BENCH_REGISTRY } from '../bench-runtime.ts';
import { sized } from '../size.ts';

const MIB = 1024 * 1024;

/**
 * Images that each stand on one of the shared layers, by turns, and have a layer of their own.
 * Sizes in MiB.
 */
export interface LayeredImages {
  readonly sharedMiB: readonly number[];
  readonly images: number;
  /** Of each image; one number for all of them. */
  readonly ownMiB: number | readonly number[];
}

/** Twelve images of 68 MiB over three shared layers, 1,032 MiB in 15 layers. */
export const PRELOAD_IMAGES: LayeredImages = sized(
  { sharedMiB: [88, 72, 56], images: 12, ownMiB: 68 },
  { sharedMiB: [2, 1], images: 3, ownMiB: 1 },
);

/**
 * Images as {@link LayeredImages} says, of bytes that don't compress. `keep`: what is kept of each
 * layer in memory; default all.
 */
export function layeredImages(
  { sharedMiB, images, ownMiB }: LayeredImages,
  keep: (layer: SampleLayer) => SampleLayer = (layer) => layer,
): { readonly reference: string; readonly image: SampleImage }[] {
  const made = (seed: string, mib: number, files: number) =>
    keep(sampleLayer({ seed, sizeBytes: Math.ceil(mib * MIB), files }));
  const bases = sharedMiB.map((mib, at) => made(`base${at}`, mib, 400));
  return Array.from({ length: images }, (_none, at) => {
    const own = made(`own${at}`, typeof ownMiB === 'number' ? ownMiB : (ownMiB[at] ?? 1), 80);
    const layers = [...bases.slice(at % bases.length, (at % bases.length) + 1), own];
    return {
      reference: `${BENCH_REGISTRY}/bench/image${at}:1.0.0`,
      image: sampleImage({ seed: `image${at}`, layers }),
    };
  });
}

/**
 * Writes `<folder>/layout.tar`, an OCI layout of the bundle's images under their own names as `ctr
 * images import` takes it, and returns its path.
 */
export async function layoutTar({ images }: SampleBundle, folder: string): Promise<string> {
  const layout = join(folder, 'layout');
  const tar = join(folder, 'layout.tar');
  writeOciLayout(
    layout,
    images.map(({ image, reference }) => ({ image, names: [reference] })),
  );
  await execute(['tar', '--create', '--file', tar, '--directory', layout, 'oci-layout', 'index.json', 'blobs']);
  rmSync(layout, { recursive: true });
  return tar;
}
