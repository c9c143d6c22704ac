import type { Digest } from '../../../domain/model/digest.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';
import { limits } from '../../limits.ts';
import type { Plan } from '../images/plan-images.ts';

/** What the size of one file is held against. */
export interface FileSizeRules {
  /** The bundle is to be one tar file. */
  readonly isTar: boolean;
  /** Files of 4 GiB and more may travel. */
  readonly allowLargeBlobs: boolean;
}

/** What sizes of layers are held against. */
interface SizeRules extends FileSizeRules {
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
    if (rules.leftOut.has(digest) || size <= limits.blobBytes) continue;
    const image = images.find((one) => one.layers.includes(at));
    const what = `${image?.reference ?? 'an image'}: layer ${digest}`;
    checkBlobSize(what, size, rules, ', or rebuild the image with smaller layers');
  }
}

/**
 * Looks whether one blob fits. `what` begins the message, `orElse` ends its advice.
 *
 * @throws AppError `bundle/source` (`reject`)
 */
export function checkBlobSize(what: string, sizeBytes: number, rules: FileSizeRules, orElse = ''): void {
  const has = `${what} has ${formatBytes(sizeBytes)}`;
  if (sizeBytes > limits.blobBytes && !rules.allowLargeBlobs) {
    throw bundleError(
      'bundle/source',
      `${has}, and FAT holds files of less than 4 GiB: use sticks with exFAT or ext4 and say so with --allow-large-blobs${orElse}`,
    );
  }
  if (rules.isTar && sizeBytes > limits.tarMemberBytes) {
    throw bundleError(
      'bundle/source',
      `${has}, and a tar holds files of less than 8 GiB: make the bundle as a directory`,
    );
  }
}
