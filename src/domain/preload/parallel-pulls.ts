import type { LayerStorage } from '../model/image.ts';

/** For containerd: with two pulls it often waits for its disk (docs/decisions/pull-order.md). */
const CONTAINERD = 4;
/** For CRI-O: more pulls take turns at its storage, and are slower. */
const OTHERS = 2;

/**
 * How many images are pulled at the same time: `preload.parallel`, or what `"auto"` means for a
 * runtime that keeps layers in this way. Default: as CRI-O does.
 */
export function parallelPulls(setting: number | 'auto', layerStorage: LayerStorage | undefined): number {
  if (setting !== 'auto') return setting;
  return layerStorage === 'both' ? CONTAINERD : OTHERS;
}
