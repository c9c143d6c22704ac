import type { RehearsedImage } from '../../cli/context/command-adapters.ts';
import type { Contents } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';

/** The observed pulls of a runtime. */
export interface PullWatch {
  readonly watch: (runtime: RuntimeAdapter) => RuntimeAdapter;
  /** The last pull of each image, in the order of completion. */
  images(): readonly RehearsedImage[];
  /** The highest number of failed pulls of one image or tag. */
  failures(): number;
}

/** Watches the pulls of the images of `contents`. `onImage` is called for each pull by digest. */
export function createPullWatch(contents: Contents, clock: Clock, onImage: (image: RehearsedImage) => void): PullWatch {
  const layers = new Map(
    contents.images.map((image) => [
      image.reference,
      image.layers.map((at) => contents.layers[at]).filter((layer) => layer !== undefined),
    ]),
  );
  const pulledLayers = new Set<Digest>();
  const images = new Map<string, RehearsedImage>();
  const failures = new Map<string, number>();
  const note = (image: RehearsedImage): void => {
    images.delete(image.reference);
    images.set(image.reference, image);
    onImage(image);
  };
  const pull = async (runtime: RuntimeAdapter, reference: string, signal: AbortSignal): Promise<void> => {
    const own = layers.get(reference);
    const since = clock.monotonic();
    // Two pulls that share a missing layer never run in parallel. So this pull brings all layers
    // that are still missing.
    const fresh = (own ?? []).filter(({ digest }) => !pulledLayers.has(digest));
    const newBytes = fresh.reduce((sum, layer) => sum + layer.sizeBytes, 0);
    const seen = () => ({ reference, newBytes, durationMs: clock.monotonic() - since });
    try {
      await runtime.pull(reference, signal);
      for (const { digest } of fresh) pulledLayers.add(digest);
      if (own !== undefined) note(seen());
    } catch (error) {
      if (!signal.aborted) {
        failures.set(reference, (failures.get(reference) ?? 0) + 1);
        if (own !== undefined) note({ ...seen(), fault: reasonOf(error) });
      }
      throw error;
    }
  };
  return {
    watch: (runtime) => ({ ...runtime, pull: (reference, signal) => pull(runtime, reference, signal) }),
    images: () => [...images.values()],
    failures: () => Math.max(0, ...failures.values()),
  };
}
