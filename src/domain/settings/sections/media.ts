import { defaultFilesystems } from '../../model/filesystems.ts';
import type { Section } from '../section.ts';
import { absolutePath, absolutePaths, duration, filesystems, flag } from '../value-types.ts';

/** The settings of section `media`. */
export const mediaSection = {
  about: 'Where bundles come from.',
  settings: {
    detect: { type: flag, default: true, about: 'Whether sticks that udev reports are mounted and read.' },
    directories: {
      type: absolutePaths,
      default: [],
      about:
        'Directories that count as sticks while they exist. A symbolic link in such a path is followed only if root owns it, in a folder where nobody else can replace it.',
    },
    incoming: {
      type: absolutePath,
      default: '/var/lib/stickpin/incoming',
      about: 'The drop folder: a bundle that is copied into it is loaded.',
    },
    grace: {
      type: duration,
      default: '60 s',
      about:
        'How long a transfer waits for its stick to come back. Keep it shorter than the time after which the runtime gives up a pull without progress.',
    },
    filesystems: {
      type: filesystems,
      default: [...defaultFilesystems],
      about:
        'Filesystems that are mounted. The list replaces the default one. [cli.md](cli.md#filesystems-of-media) says more about each.',
    },
  },
} satisfies Section;
