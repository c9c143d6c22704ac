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

function shortageText(title: string, { kind, path, needed, free, reserved }: ShortOf): string {
  const inBytes = `${formatBytes(free)} free of which ${formatBytes(reserved)} are reserved`;
  switch (kind) {
    case 'bytes':
      return `Not enough space for ${title}: needs about ${formatBytes(needed)} on ${path}, ${inBytes}`;
    case 'inodes':
      return `Not enough inodes for ${title}: needs about ${needed} on ${path}, ${free} free of which ${reserved} are reserved`;
    case 'staging':
      return `Not enough space for ${title}: the runtime stages about ${formatBytes(needed)} on ${path} while it pulls, ${inBytes}`;
    default:
      return assertNever(kind);
  }
}
