import { contentOf, endOf, type Pause } from '../../fleet/pause.ts';
import type { Event } from '../../model/condition.ts';
import { liftedByText, pausedTitle, saidByText } from '../texts/pause-texts.ts';
import { timeText } from '../texts/short-texts.ts';

/** Reports new pauses and lifts with their author. A confirmation by the same node is no news. */
export function pauseEvents(before: readonly Pause[], after: readonly Pause[]): readonly Event[] {
  const lifts = new Map(before.map((one) => [contentOf(one), one.lifted !== undefined]));
  return after.flatMap((one): Event[] => {
    const wasLifted = lifts.get(contentOf(one));
    const { lifted, liftedFrom } = one;
    const isNew = wasLifted === undefined;
    const paused: Event[] = isNew ? [{ kind: 'rollOutPaused', level: 'info', message: pausedText(one) }] : [];
    if (lifted === undefined || wasLifted === true) return paused;
    const message = `${resumedText(one)} by ${liftedByText(lifted, liftedFrom)}`;
    return [...paused, { kind: 'rollOutResumed', level: 'info', message }];
  });
}

function pausedText(one: Pause): string {
  const until = timeText(endOf(one));
  return `The roll-out of ${pausedTitle(one)} is paused until ${until} by ${saidByText(one)}: ${one.why} (${one.id})`;
}

function resumedText(one: Pause): string {
  return `The roll-out of ${pausedTitle(one)} goes on: pause ${one.id} (${saidByText(one)}: ${one.why}) is lifted`;
}
