import type { Section } from '../section.ts';
import { timeZone, weeklyWindows } from '../time-types.ts';
import { flag, fraction, oneOf } from '../value-types.ts';

/** The settings of section `update`. */
export const updateSection = {
  about: 'When a release is activated automatically ([cli.md](cli.md#when-a-release-is-activated)).',
  settings: {
    strategy: {
      type: oneOf(['immediate', 'window', 'manual'], 'must be "immediate", "window" or "manual"'),
      default: 'immediate',
      about:
        'When a release that is ready is activated: at once, while one of `update.windows` is open, or when a person runs `stickpin activate`.',
    },
    windows: {
      type: weeklyWindows,
      default: [],
      about:
        'Windows for the strategy `window`, each a table `[[update.windows]]`. `days` are the weekdays on which it begins. Windows may overlap, cross midnight and the week, and be longer than a day.',
    },
    time_zone: {
      type: timeZone,
      default: 'UTC',
      about:
        'The time zone of all windows; `localtime` is the one of the node. On the day when summer time begins or ends, a window may be longer or shorter, or not exist.',
    },
    rollout_wariness: {
      type: fraction,
      default: undefined,
      about:
        'How cautious this node is in rollouts: 0 is among the first, 1 the last. When not set: a hash of `/etc/machine-id` and the stream ([bundle-format.md](bundle-format.md#rollout)).',
    },
    allow_downgrade: {
      type: flag,
      default: false,
      about:
        'Whether a release with a lower version or sequence than the present one is accepted, and activated without a confirmation. It applies to releases that come after the present one was activated.',
    },
    allow_end_of_life: {
      type: flag,
      default: false,
      about: 'Whether a release that is past its end of life is activated without a confirmation.',
    },
    pulls_from_elsewhere: {
      type: oneOf(['warn', 'hold'], 'must be "warn" or "hold"'),
      default: 'warn',
      about:
        'What happens when a static pod or a running container asks for an image by a name that no activated release provides. `"warn"`: only the condition `PullsFromElsewhere` says so. `"hold"`: a release is activated only when all names are provided after that. See [pulls.md](decisions/pulls.md#pulls-from-elsewhere).',
    },
  },
} satisfies Section;
