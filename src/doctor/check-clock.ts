import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { timeText } from '../domain/report/texts/time-text.ts';
import { clockFault } from '../domain/time/clock-fault.ts';
import type { Check, ExaminedNode } from './check.ts';

/** Whether the clock is right, as far as that can be told, and synchronised. */
export function checkClock({ services, clock }: Pick<ExaminedNode, 'services' | 'clock'>): readonly Check[] {
  return [
    {
      subject: 'clock',
      remedy: "look at it with 'timedatectl', then run 'stickpin doctor' again",
      look: async (signal) => {
        const wrong = wrongTime(clock);
        if (wrong !== undefined) return [wrong];
        return services === undefined ? [] : [synchronisation(await services.isClockSynchronized(signal))];
      },
    },
  ];
}

const { ok, warning, fault } = findingsOn('clock');

/** As the gate `clock` judges it. Releases are not looked at here. */
function wrongTime({ now, builtAt }: ExaminedNode['clock']): Finding | undefined {
  const wrong = clockFault(now, builtAt, undefined);
  if (wrong === undefined) return undefined;
  return fault(
    `the clock is wrong: it shows ${timeText(now)}, and this program was built at ${timeText(wrong.least)}. Releases with a window, a rollout or an end of life wait`,
    "set it with 'timedatectl set-time', or connect a source of time",
  );
}

function synchronisation(isSynchronised: boolean | undefined): Finding {
  if (isSynchronised === true) return ok('the clock is synchronised');
  return warning(
    'the clock is not synchronised, so that a bundle from the future is not noticed',
    'set the clock; on a node without a network it may stay like this while its time is about right',
  );
}
