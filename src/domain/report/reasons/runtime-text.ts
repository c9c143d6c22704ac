import { assertNever } from '../../../platform/app-error.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { RuntimeReason, ShortOf } from '../../model/reason.ts';

/** Why the runtime, or its disk, takes no images. */
export function runtimeText(reason: RuntimeReason): string {
  switch (reason.code) {
    case 'engine/no-space':
      return shortageText(bundleTitle(reason.data.bundle), reason.data.shortage);
    case 'runtime/policy': {
      const { bundle, images, first } = reason.data;
      return `policy.json of this node refuses ${images} images of ${bundleTitle(bundle)}; first: ${first.message}`;
    }
    case 'runtime/version': {
      const { runtime, needed } = reason.data;
      return `${runtime} is too old: it can't report which images are pinned, so nothing is loaded and pins stay as they are. stickpin needs ${needed} or newer. Upgrade and restart it; stickpin continues automatically.`;
    }
    default:
      return assertNever(reason);
  }
}

const OR_UNPIN = "or run 'stickpin unpin' for an old release";

function shortageText(title: string, { kind, path, needed, free, reserved }: ShortOf): string {
  const usable = Math.max(0, free - reserved);
  const reserve = (amount: string) => (reserved === 0 ? '' : ` (preload.min_free_percent reserves ${amount})`);
  const inBytes = `usable ${formatBytes(usable)}${reserve(formatBytes(reserved))}`;
  switch (kind) {
    case 'bytes':
      return `Not enough space for ${title} on ${path}: needs ${formatBytes(needed)}, ${inBytes}. Free space there, ${OR_UNPIN}`;
    case 'inodes':
      return `Not enough inodes for ${title} on ${path}: needs ${needed}, usable ${usable}${reserve(`${reserved}`)}. Remove files there, ${OR_UNPIN}`;
    case 'staging':
      return `Not enough space for ${title} on ${path}: the runtime stages ${formatBytes(needed)} there while it pulls, ${inBytes}. Free space there`;
    default:
      return assertNever(kind);
  }
}
