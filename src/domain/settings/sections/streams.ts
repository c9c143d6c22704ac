import type { Section } from '../section.ts';
import { version } from '../value-types.ts';

/** The settings of section `streams`. */
export const streamsSection = {
  about: 'What is said about one release stream. `NAME` is the name of the stream.',
  isNamed: true,
  settings: {
    current: {
      type: version,
      default: undefined,
      about:
        'The version that runs on the node, where stickpin has activated no release of the stream. Without it neither `from` nor barriers apply there.',
    },
  },
} satisfies Section;
