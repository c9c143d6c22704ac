import type { Section } from '../section.ts';
import { duration, durationOrKeep, flag, releases, texts, wholeNumber } from '../value-types.ts';

/** The settings of section `lifecycle`. */
export const lifecycleSection = {
  about: 'When a release counts as proven, and how long it is kept.',
  settings: {
    soak: {
      type: duration,
      default: '10 min',
      about: 'How long each component must have run without a restart before a release counts as proven.',
    },
    require: { type: texts, default: [], about: 'Components that must be among those that run.' },
    ignore: { type: texts, default: [], about: 'Components that do not count.' },
    keep: {
      type: wholeNumber(1),
      default: 2,
      about: 'How many proven releases of a stream stay pinned. The present one is one of them.',
    },
    remove_images: {
      type: flag,
      default: true,
      about:
        'Whether the images that only a retired release has are removed. It applies to images that stickpin pulled.',
    },
    make_room: {
      type: flag,
      default: true,
      about:
        'Whether the fallback is retired early when the next release lacks space and the present one is proven. Needs `lifecycle.remove_images`.',
    },
    without_evidence: {
      type: durationOrKeep,
      default: 'keep',
      about:
        'After which time an activated release counts as proven although no container of it was ever seen. `keep`: never. [proof.md](decisions/proof.md#without-evidence) says what counts.',
    },
    protect: { type: releases, default: [], about: 'Releases that are never retired.' },
  },
} satisfies Section;
