import { describe, expect, it } from 'vitest';
import type { ReleaseReason, RuntimeReason } from '../../../../../src/domain/model/reason.ts';
import { reasonText } from '../../../../../src/domain/report/reasons/reason-text.ts';

const bundle = { name: 'ocp', version: '4.13.7' };
const MIB = 1024 ** 2;
const short = { path: '/var/lib/containers', needed: 75 * MIB, free: 44 * MIB, reserved: 15 * MIB };

describe('the sentence of a runtime that takes no images, or of a release', () => {
  it.each<[RuntimeReason | ReleaseReason, string]>([
    [
      { code: 'engine/no-space', data: { bundle, shortage: { kind: 'bytes', ...short } } },
      "Not enough space for ocp 4.13.7 on /var/lib/containers: needs 75 MiB, usable 29 MiB (preload.min_free_percent reserves 15 MiB). Free space there, or run 'stickpin unpin' for an old release",
    ],
    [
      {
        code: 'engine/no-space',
        data: { bundle, shortage: { kind: 'inodes', path: '/var', needed: 347, free: 496, reserved: 150 } },
      },
      "Not enough inodes for ocp 4.13.7 on /var: needs 347, usable 346 (preload.min_free_percent reserves 150). Remove files there, or run 'stickpin unpin' for an old release",
    ],
    [
      { code: 'engine/no-space', data: { bundle, shortage: { kind: 'staging', ...short, path: '/var/tmp' } } },
      'Not enough space for ocp 4.13.7 on /var/tmp: the runtime stages 75 MiB there while it pulls, usable 29 MiB (preload.min_free_percent reserves 15 MiB). Free space there',
    ],
    [
      {
        code: 'runtime/policy',
        data: { bundle, images: 2, first: { code: 'runtime/policy', message: 'quay.io/x/a is not signed' } },
      },
      'policy.json of this node refuses 2 images of ocp 4.13.7; first: quay.io/x/a is not signed',
    ],
    [
      { code: 'runtime/version', data: { runtime: 'cri-o 1.27.8', needed: 'CRI-O 1.28' } },
      "cri-o 1.27.8 is too old: it can't report which images are pinned, so nothing is loaded and pins stay as they are. stickpin needs CRI-O 1.28 or newer. Upgrade and restart it; stickpin continues automatically.",
    ],
    [
      {
        code: 'engine/tag-contested',
        data: { bundle, tag: 'quay.io/x/a:1', reference: 'quay.io/x/a@sha256:5f', names: 'quay.io/x/b', times: 3 },
      },
      "quay.io/x/a:1 of ocp 4.13.7 was taken away again after it was given back 3 times within an hour, so it is left alone: it names quay.io/x/b now and should name quay.io/x/a@sha256:5f. Find out what moves it; 'stickpin activate ocp@4.13.7' gives it again",
    ],
    [
      {
        code: 'engine/tag-contested',
        data: { bundle, tag: 'quay.io/x/a:1', reference: 'quay.io/x/a@sha256:5f', times: 3 },
      },
      "quay.io/x/a:1 of ocp 4.13.7 was taken away again after it was given back 3 times within an hour, so it is left alone: it names no image now and should name quay.io/x/a@sha256:5f. Find out what moves it; 'stickpin activate ocp@4.13.7' gives it again",
    ],
    [{ code: 'engine/rolled-back', data: { recorded: 'ocp 4.13.6 runs again' } }, 'ocp 4.13.6 runs again'],
  ])('%j', (reason, text) => {
    expect(reasonText(reason)).toBe(text);
  });
});
