import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import type { Plan } from '../../../../src/factory/images/plan-images.ts';
import { checkBlobSizes } from '../../../../src/factory/layers/packed-file.ts';

const GIB = 1024 ** 3;
const large = digestFromHex('bb'.repeat(32));
const strict = { isTar: false, allowLargeBlobs: false };

function plan(size: number): Pick<Plan, 'layers' | 'images'> {
  const layer = { mediaType: 'x', path: 'x', what: 'x', diffId: large, isDisposable: false };
  const image = { digest: large, mediaType: 'x', tags: [], pin: true, sizeBytes: 9 };
  return {
    layers: [
      { ...layer, digest: digestFromHex('aa'.repeat(32)), size: 9 },
      { ...layer, digest: large, size },
    ],
    images: [
      { ...image, reference: 'quay.example.com/small@x', layers: [0] },
      { ...image, reference: 'quay.example.com/large@x', layers: [0, 1] },
    ],
  };
}

describe('checkBlobSizes', () => {
  it('takes what FAT holds', () => {
    expect(() => checkBlobSizes(plan(4 * GIB - 1), strict)).not.toThrow();
  });

  it('names a layer of 4 GiB with its image and what to do', () => {
    expect(() => checkBlobSizes(plan(4 * GIB), strict)).toThrow(
      `quay.example.com/large@x: layer ${large} has 4.0 GiB, but a file on FAT must be smaller than 4 GiB: use sticks with exFAT or ext4, and give --allow-large-blobs, or rebuild the image with smaller layers`,
    );
  });

  it('takes it when that was asked for, or when it is left to the base', () => {
    expect(() => checkBlobSizes(plan(9 * GIB), { ...strict, allowLargeBlobs: true })).not.toThrow();
    expect(() => checkBlobSizes(plan(9 * GIB), strict, new Set([large]))).not.toThrow();
  });

  it('takes no member into a tar that its header has no room for', () => {
    const tar = { ...strict, allowLargeBlobs: true, isTar: true };
    expect(() => checkBlobSizes(plan(8 * GIB - 1), tar)).not.toThrow();
    expect(() => checkBlobSizes(plan(8 * GIB), tar)).toThrow('smaller than 8 GiB: make the bundle as a directory');
  });
});
