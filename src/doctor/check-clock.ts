import { findingsOn } from '../domain/model/finding.ts';
import type { Check, ExaminedNode } from './check.ts';

/** Whether the clock is synchronised. */
export function checkClock({ services }: Pick<ExaminedNode, 'services'>): readonly Check[] {
  if (services === undefined) return [];
  const { ok, warning } = findingsOn('clock');
  return [
    {
      subject: 'clock',
      remedy: "look at it with 'timedatectl'; stickpin works without it",
      look: async (signal) => [
        (await services.isClockSynchronized(signal)) === true
          ? ok('the clock is synchronised')
          : warning(
              'the clock is not synchronised, so that a bundle from the future is not noticed',
              'set the clock; on a node without a network it may stay like this',
            ),
      ],
    },
  ];
}
