import type { Section } from '../section.ts';
import { serviceUnit } from '../value-types.ts';

/** The settings of section `hooks`. */
export const hooksSection = {
  about: 'systemd services that are started by events of a release, see [hooks.md](hooks.md).',
  settings: {
    'before-activate': {
      type: serviceUnit,
      default: '',
      about:
        'Runs before each activation and must succeed before tags move. While it fails, it holds the activation and is tried again.',
    },
    ready: { type: serviceUnit, default: '', about: 'Every image of a release is present and pinned.' },
    activated: { type: serviceUnit, default: '', about: 'The tags of a release name its images.' },
    proven: { type: serviceUnit, default: '', about: 'A release is proven.' },
    'rolled-back': { type: serviceUnit, default: '', about: 'A release was rolled back.' },
    degraded: {
      type: serviceUnit,
      default: '',
      about: 'The condition `Degraded` of a release has become `True`.',
    },
  },
} satisfies Section;
