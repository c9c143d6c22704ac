import type { Digest } from '../../../domain/model/digest.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';
import type { Plan } from '../images/plan-images.ts';

/** What a size is held against. */
interface SizeRules {
  /** The bundle is to be one tar file. */
  readonly isTar: boolean;
  /** Layers of 4 GiB and more may travel. */
  readonly allowLargeBlobs: boolean;
  /** Layers that are left to a base. */
  readonly leftOut: { has(digest: Digest): boolean };
}

/**
 * Looks whether every layer fits into a file of the filesystems on which sticks are sold, before
 * any is copied.
 *
 * @throws AppError `bundle/source` (`reject`) that names the layer, its image, and what to do.
 */
export function checkBlobSizes({ layers, images }: Pick<Plan, 'layers' | 'images'>, rules: SizeRules): void {
  for (const [at, { digest, size }] of layers.entries()) {
    if (rules.leftOut.has(digest)) continue;
    const what = () => {
      const image = images.find((one) => one.layers.includes(at));
      return `${image?.reference ?? 'an image'}: layer ${digest} has ${formatBytes(size)}`;
    };
    if (size > limits.blobBytes && !rules.allowLargeBlobs) {
      throw bundleError(
        'bundle/source',
        `${what()}, and FAT holds files of less than 4 GiB: use sticks with exFAT or ext4 and say so with --allow-large-blobs, or rebuild the image with smaller layers`,
      );
    }
    if (rules.isTar && size > limits.tarMemberBytes) {
      throw bundleError(
        'bundle/source',
        `${what()}, and a tar holds files of less than 8 GiB: make the bundle as a directory`,
      );
    }
  }
}
