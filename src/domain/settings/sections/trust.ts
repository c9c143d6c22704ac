import type { Section } from '../section.ts';
import { absolutePath, bundleDigests, oneOf, wholeNumber } from '../value-types.ts';

/** The settings of section `trust`. */
export const trustSection = {
  about: 'Which bundles are accepted.',
  settings: {
    keys_dir: {
      type: absolutePath,
      default: '/etc/stickpin/keys.d',
      about:
        'Folder of the trusted keys (`*.pub`), the revoked keys (`*.revoked`) and the [roles](decisions/key-roles.md) (`*.toml`), at most 64 files. Only root may write the folder and the files in it.',
    },
    threshold: {
      type: wholeNumber(1),
      default: 1,
      about:
        'How many different plain keys (`*.pub`) must have signed a bundle. A [role](decisions/key-roles.md) has a threshold of its own.',
    },
    max_sequence_step: {
      type: wholeNumber(0),
      default: 0,
      about:
        'How far the sequence of an unknown bundle may be above the highest one of its stream that was activated here when its stick was plugged in. 0: any distance, since a sequence may be a timestamp.',
    },
    require: {
      type: oneOf(['signature', 'approval', 'both'], 'must be "signature", "approval" or "both"'),
      default: 'signature',
      about:
        'What an unknown bundle needs before it is accepted: signatures of trusted keys, an approval of its digest, or both.',
    },
    approved: {
      type: bundleDigests,
      default: [],
      about:
        'Digests of approved bundles. `stickpin approve` approves more of them. `stickpin reject` wins over this list.',
    },
  },
} satisfies Section;
