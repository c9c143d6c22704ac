import type { Section } from '../section.ts';
import { duration, flag, percentUpTo, wholeNumberOrAuto } from '../value-types.ts';

/** The settings of section `preload`. */
export const preloadSection = {
  about: 'How images are loaded.',
  settings: {
    parallel: {
      type: wholeNumberOrAuto(1, 16),
      default: 'auto',
      about:
        'How many images are pulled at the same time. `auto` is 4 with containerd, and 2 with CRI-O and the embedded runtime.',
    },
    min_free_percent: {
      type: percentUpTo(90),
      default: 15,
      about:
        'Share of the image filesystem that stays free. It also applies to its inodes, and to the filesystem on which the runtime stages blobs.',
    },
    stall: {
      type: duration,
      default: '90 s',
      about: 'A pull that transfers nothing for this long is stopped and tried again.',
    },
    online: {
      type: flag,
      default: true,
      about: 'Whether the images of an envelope without blobs are pulled from their own registries.',
    },
  },
} satisfies Section;
