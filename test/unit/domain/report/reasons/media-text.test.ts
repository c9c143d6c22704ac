import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../../src/domain/model/digest.ts';
import type { MediaReason } from '../../../../../src/domain/model/reason.ts';
import { reasonText } from '../../../../../src/domain/report/reasons/reason-text.ts';

const bundle = { name: 'ocp', version: '4.13.7' };
const images = { present: 1, total: 2 };
const digest = digestFromHex('5f'.repeat(32));
const short = 'sha256:5f5f5f5f5f5f…';
const flaws = { digest, why: 'damaged', medium: 'sdb1', more: 0 } as const;

describe('the sentence of a preload that waits for media', () => {
  it.each<[MediaReason, string]>([
    [
      {
        code: 'engine/no-base',
        data: { bundle, layers: 2, base: { bundleId: digest, name: 'ocp@4.13.6', isAdopted: true } },
      },
      `ocp 4.13.7 needs base ocp@4.13.6 (${short}), which is not complete on this node: it lacks 2 layers. Plug in the stick with ocp@4.13.6, or one with all of ocp 4.13.7.`,
    ],
    [
      {
        code: 'engine/no-base',
        data: {
          bundle,
          layers: 2,
          base: { bundleId: digest, name: 'ocp@4.13.6', isAdopted: true, isRetired: true },
          holders: ['ocp@4.13.6'],
        },
      },
      `ocp 4.13.7 needs base ocp@4.13.6 (${short}), which was retired on this node: it lacks 2 layers. Plug in the stick with ocp@4.13.6, which has them, or one with all of ocp 4.13.7.`,
    ],
    [
      {
        code: 'engine/no-base',
        data: {
          bundle,
          layers: 2,
          base: { bundleId: digest, name: 'ocp@4.13.6', isAdopted: true },
          holders: ['ocp@4.13.4', 'ocp@4.13.5'],
        },
      },
      `ocp 4.13.7 needs base ocp@4.13.6 (${short}), which is not complete on this node: it lacks 2 layers. Plug in the stick with ocp@4.13.4 or ocp@4.13.5, which have them, or one with all of ocp 4.13.7.`,
    ],
    [
      { code: 'engine/no-base', data: { bundle, layers: 1, base: { bundleId: digest, isAdopted: false } } },
      `ocp 4.13.7 needs base bundle ${short}, which this node has never had: it lacks 1 layer. Plug in the stick with that bundle, or one with all of ocp 4.13.7.`,
    ],
    [
      { code: 'engine/cancelled', data: { bundle, images } },
      "The preload of ocp 4.13.7 was cancelled (1/2 images). Plug its stick in again, or run 'stickpin rescan', to continue.",
    ],
    [
      { code: 'engine/offline', data: { bundle, media: ['sdb1', 'sdc1'] } },
      'ocp 4.13.7 on sdb1, sdc1 is an envelope without blobs, and preload.online is false: plug in the stick with its blobs, or set preload.online = true.',
    ],
    [
      {
        code: 'bundle/blob-missing',
        data: { kind: 'on-all-media', bundle, images, media: ['sdb1'], blobs: 1, first: { digest, why: 'truncated' } },
      },
      `ocp 4.13.7 on sdb1 lacks 1 blob, first ${digest} (truncated); 1/2 images present. Plug in the stick that carries the rest, or copy the bundle again.`,
    ],
    [
      {
        code: 'bundle/blob-missing',
        data: { kind: 'on-all-media', bundle, images, media: ['sdb1'], blobs: 0, first: { reference: 'quay.io/x/y' } },
      },
      'ocp 4.13.7 on sdb1 lacks 0 blobs, first quay.io/x/y; 1/2 images present. Plug in the stick that carries the rest, or copy the bundle again.',
    ],
    [
      {
        code: 'bundle/blob-missing',
        data: { kind: 'rest', bundle, images, layers: 3, sizeBytes: 10 * 1024 ** 2, first: digest },
      },
      `ocp 4.13.7 still lacks 3 layers (10 MiB), first ${digest}; 1/2 images present. Plug in the stick that carries the rest.`,
    ],
    [
      { code: 'engine/needs-copy', data: { bundle, images, flaws: { ...flaws, more: 2 } } },
      `ocp 4.13.7 needs an undamaged copy (1/2 images present): blob ${short} was damaged on sdb1 (and 2 more). Copy the bundle to a stick again, check it with 'stickpin bundle verify --full', and plug it in. Or give it up: 'stickpin unpin ocp@4.13.7'.`,
    ],
    [
      { code: 'engine/no-source', data: { bundle, images, how: { kind: 'unplugged' } } },
      'Stick removed while preloading ocp 4.13.7 (1/2 images). Plug it in again to continue.',
    ],
    [
      { code: 'engine/no-source', data: { bundle, images, how: { kind: 'unmounted', medium: 'sdb1' } } },
      "sdb1 was unmounted while preloading ocp 4.13.7 (1/2 images). Plug it in again or run 'stickpin rescan' to continue.",
    ],
    [
      { code: 'engine/no-source', data: { bundle, images, how: { kind: 'taken-out' } } },
      'ocp 4.13.7 was taken out of the drop folder while preloading (1/2 images). Put it back, or plug in its stick, to continue.',
    ],
    [
      { code: 'engine/no-source', data: { bundle, images, how: { kind: 'taken-out', folder: '/srv/bundles' } } },
      'ocp 4.13.7 was taken out of /srv/bundles while preloading (1/2 images). Put it back, or plug in its stick, to continue.',
    ],
    [
      { code: 'media/looking', data: { bundle, images } },
      'stickpin has just started and looks whether ocp 4.13.7 is plugged in (1/2 images present).',
    ],
    [
      { code: 'media/reading', data: { bundle, images, medium: 'sdb1' } },
      'sdb1 is read again; then ocp 4.13.7 continues (1/2 images present).',
    ],
  ])('%j', (reason, text) => {
    expect(reasonText(reason)).toBe(text);
  });

  it.each([
    ['unreadable', 'could not be read'],
    ['truncated', 'was cut short'],
    ['absent', 'was missing'],
  ] as const)('says that a blob that is %s %s', (why, text) => {
    const reason = { code: 'engine/needs-copy', data: { bundle, images, flaws: { ...flaws, why } } } as const;
    expect(reasonText(reason)).toContain(`blob ${short} ${text} on sdb1.`);
  });
});
