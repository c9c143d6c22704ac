import type { Section } from '../section.ts';
import { durationOrKeep } from '../value-types.ts';

/** The settings of section `history`. */
export const historySection = {
  about: 'What `stickpin history` shows.',
  settings: {
    keep: {
      type: durationOrKeep,
      default: '365 d',
      about:
        'How long events are kept, by the clock of the node. The newest 100 stay, whatever the clock says, and there are at most 20,000. `keep`: no time limit.',
    },
  },
} satisfies Section;
