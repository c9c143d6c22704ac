import type { Settings } from '../../config/schema.ts';
import type { Policy } from '../../domain/state/state.ts';

/** The settings on which decisions depend. */
export function policyOf({ preload, retention, lifecycle, trust }: Settings): Policy {
  return {
    lifecycle: {
      soakMs: lifecycle.soak,
      require: lifecycle.require,
      ignore: lifecycle.ignore,
      keep: lifecycle.keep,
      removeImages: lifecycle.remove_images,
      makeRoom: lifecycle.make_room,
      protect: lifecycle.protect,
    },
    trust: { require: trust.require, threshold: trust.threshold, approved: trust.approved },
    parallelPulls: preload.parallel,
    minFreePercent: preload.min_free_percent,
    keepBlobs: retention.blobs === 'kept',
    online: preload.online,
  };
}
