import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../../src/domain/model/digest.ts';
import type { ImageReason } from '../../../../../src/domain/model/reason.ts';
import { reasonText } from '../../../../../src/domain/report/reasons/reason-text.ts';

const bundle = { name: 'ocp', version: '4.13.7' };
const flaws = { digest: digestFromHex('5f'.repeat(32)), why: 'damaged', medium: 'sdb1', more: 0 } as const;
const missing = { bundle, missing: 1, total: 9, named: ['quay.io/x/a'], isList: false } as const;
const pins = { bundle, unpinned: 1, total: 2 };

describe('the sentence of images that are missing or not pinned', () => {
  it.each<[ImageReason, string]>([
    [
      { code: 'engine/image-missing', data: { ...missing, next: { kind: 'pull' } } },
      '1 of 9 images of ocp 4.13.7 is missing, first quay.io/x/a. It is pulled again.',
    ],
    [
      { code: 'engine/image-missing', data: { ...missing, missing: 2, next: { kind: 'pull' } } },
      '2 of 9 images of ocp 4.13.7 are missing, first quay.io/x/a. They are pulled again.',
    ],
    [
      { code: 'engine/image-missing', data: { ...missing, missing: 2, next: { kind: 'look' } } },
      '2 of 9 images of ocp 4.13.7 are missing, first quay.io/x/a. stickpin has just started and looks at the media.',
    ],
    [
      {
        code: 'engine/image-missing',
        data: { ...missing, missing: 4, named: ['a', 'b'], isList: true, next: { kind: 'plug-in' } },
      },
      '4 of 9 images of ocp 4.13.7 are missing: a, b and 2 more. Plug in the stick of ocp 4.13.7.',
    ],
    [
      { code: 'engine/image-missing', data: { ...missing, isList: true, next: { kind: 'copy', flaws } } },
      "1 of 9 images of ocp 4.13.7 is missing: quay.io/x/a. An undamaged copy is needed: blob sha256:5f5f5f5f5f5f… was damaged on sdb1. Copy the bundle to a stick again, check it with 'stickpin bundle verify --full', and plug it in.",
    ],
    [{ code: 'runtime/pins-pending', data: pins }, '1 of 2 images of ocp 4.13.7 is present and not pinned yet'],
    [
      {
        code: 'runtime/pins-ignored',
        data: { ...pins, cause: { kind: 'fault', fault: { code: 'runtime/config', message: 'z.conf is broken' } } },
      },
      '1 of 2 images of ocp 4.13.7 is present and not pinned. z.conf is broken',
    ],
    [
      {
        code: 'runtime/pins-ignored',
        data: { ...pins, unpinned: 2, cause: { kind: 'not-reported', attempts: 4, first: 'quay.io/x/a' } },
      },
      "2 of 2 images of ocp 4.13.7 are present, but the runtime does not report them as pinned after 4 tries, first quay.io/x/a. Look for another file that sets pinned_images and sorts after 99-stickpin.conf, and read the runtime's own journal",
    ],
  ])('%j', (reason, text) => {
    expect(reasonText(reason)).toBe(text);
  });
});
