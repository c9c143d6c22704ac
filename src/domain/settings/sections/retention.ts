import type { Section } from '../section.ts';
import { durationOrKeep, oneOf, texts } from '../value-types.ts';

/** The settings of section `retention`. */
export const retentionSection = {
  about: 'What is kept outside the container runtime.',
  settings: {
    blobs: {
      type: oneOf(['metadata', 'kept']),
      default: 'metadata',
      about:
        "What is kept of the releases on the node's own disk: manifests and configs only, or with `kept` all layers too.",
    },
    incomplete: {
      type: durationOrKeep,
      default: '14 d',
      about:
        'After which time a release is dropped that was never complete, counted from its adoption. One whose bundle is on a plugged medium, that a person asked for, that is protected or that a delta needs is not. `keep`: never.',
    },
    keep_components: {
      type: texts,
      default: [],
      about:
        'Components whose images keep their layers on the disk of the node, as `["os"]`. Every program of root can then pull these images from the node.',
    },
  },
} satisfies Section;
