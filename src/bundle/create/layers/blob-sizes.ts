import type { Digest } from '../../../domain/model/digest.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';
import type { ImageFilesystem } from '../image/image-layout.ts';
import type { Plan } from '../images/plan-images.ts';

/** Limits for the size of one file. */
export interface FileSizeRules {
  /** The bundle becomes one tar file. */
  readonly isTar: boolean;
  /** Files of 4 GiB and more are allowed. */
  readonly allowLargeBlobs: boolean;
  /** The bundle becomes an image with this filesystem. Default: it does not. */
  readonly filesystem?: ImageFilesystem;
}

/** Limits for the sizes of layers. */
interface SizeRules extends FileSizeRules {
  /** Layers that the base provides. */
  readonly leftOut: { has(digest: Digest): boolean };
}

/**
 * Checks before any copy that every layer fits into one file of the usual filesystems of sticks.
 *
 * @throws AppError `bundle/source` (`reject`) that names the layer, its image, and what to do.
 */
export function checkBlobSizes({ layers, images }: Pick<Plan, 'layers' | 'images'>, rules: SizeRules): void {
  for (const [at, { digest, size }] of layers.entries()) {
    if (rules.leftOut.has(digest) || size <= limits.blobBytes) continue;
    const image = images.find((one) => one.layers.includes(at));
    const what = `${image?.reference ?? 'an image'}: layer ${digest}`;
    checkBlobSize(what, size, rules, ', or rebuild the image with smaller layers');
  }
}

/**
 * Checks that one blob fits. `what` begins the message, `orElse` ends its advice.
 *
 * @throws AppError `bundle/source` (`reject`)
 */
export function checkBlobSize(what: string, sizeBytes: number, rules: FileSizeRules, orElse = ''): void {
  const has = `${what} has ${formatBytes(sizeBytes)}`;
  if (sizeBytes > limits.blobBytes && !rules.allowLargeBlobs) {
    const advice =
      rules.filesystem === undefined
        ? 'use sticks with exFAT or ext4, and give --allow-large-blobs'
        : 'give --filesystem ext4';
    throw bundleError('bundle/source', `${has}, but a file on FAT must be smaller than 4 GiB: ${advice}${orElse}`);
  }
  if (rules.isTar && sizeBytes > limits.tarMemberBytes) {
    throw bundleError(
      'bundle/source',
      `${has}, but a file in a tar must be smaller than 8 GiB: make the bundle as a directory`,
    );
  }
}
