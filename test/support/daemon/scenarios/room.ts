import type { Contents, Layer } from '../../../../src/domain/model/bundle.ts';
import type { ImageFilesystem } from '../../../../src/domain/model/image.ts';
import { GIB } from '../scenario.ts';
import type { Letter, SpokenBundle } from './table.ts';

/** What stays free of the disk, in percent, as by default beside a kubelet. */
export const RESERVED_PERCENT = 15;
const [TOTAL, RESERVED] = [100 * GIB, RESERVED_PERCENT * GIB];

/**
 * A disk with room for all layers of the releases of `room` and half a release more, on which
 * nothing lies but the images of `releases` that are `present`, by reference.
 */
export function smallDisk(
  room: readonly Letter[],
  releases: ReadonlyMap<Letter, SpokenBundle>,
  present: readonly string[],
): ImageFilesystem {
  const of = (letter: Letter) => releases.get(letter)?.contents.layers ?? [];
  const slack = sizeOf(room.slice(0, 1).flatMap(of)) / 2;
  const used = [...releases.values()].flatMap(({ contents }) => layersOf(contents, present));
  return {
    path: '/var/lib/containers',
    totalBytes: TOTAL,
    freeBytes: RESERVED + sizeOf(room.flatMap(of)) + slack - sizeOf(used),
  };
}

function layersOf({ images, layers }: Contents, present: readonly string[]): readonly Layer[] {
  const indexes = images.filter(({ reference }) => present.includes(reference)).flatMap((image) => image.layers);
  return indexes.flatMap((index) => layers[index] ?? []);
}

/** On the disk, each layer once. */
function sizeOf(layers: readonly Layer[]): number {
  const sizes = new Map(layers.map(({ digest, diskBytes }) => [digest, diskBytes]));
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}
