import type { Section } from '../section.ts';
import { absolutePath } from '../value-types.ts';

/** The settings of section `paths`. */
export const pathsSection = {
  about: 'Where stickpin keeps its own files.',
  settings: {
    state_dir: { type: absolutePath, default: '/var/lib/stickpin', about: 'Folder of what must outlast a reboot.' },
    run_dir: { type: absolutePath, default: '/run/stickpin', about: 'Folder of what must not outlast a reboot.' },
  },
} satisfies Section;
