import type { Assessment } from '../../domain/assess/assess.ts';
import { ownersOf } from '../../domain/report/pin-events.ts';
import { AppError } from '../../platform/app-error.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { PinKeeper } from '../keepers/pin-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';

/** What {@link giveUpUnclaimed} works on. */
interface GiveUpDependencies {
  readonly recorder: EventRecorder;
  readonly pinKeeper: PinKeeper;
}

/**
 * Gives up every unclaimed pin of the last round, as a person asked. Images stay; the runtime may collect them from then on.
 *
 * @returns what was done, in a sentence
 * @throws AppError `engine/no-unclaimed` (`reject`), `engine/running` (`reject`) without `force`; `store/write`, `store/no-space` (`retry`)
 */
export async function giveUpUnclaimed(
  assessment: Assessment | undefined,
  force: boolean,
  { recorder, pinKeeper }: GiveUpDependencies,
): Promise<string> {
  const { unclaimed = [], unclaimedReleases = [] } = assessment?.pins ?? {};
  if (unclaimed.length === 0) {
    const message = "there are no unclaimed pins here; 'stickpin list' shows what is pinned";
    throw new AppError({ code: 'engine/no-unclaimed', message, disposition: 'reject' });
  }
  const isOne = unclaimed.length === 1;
  const owners = ownersOf(unclaimedReleases) ?? 'a release that nobody remembers';
  const pins = `${formatCount(unclaimed.length, 'unclaimed pin')} of ${owners}`;
  if (!force) {
    const message = `containers may run from the images of ${pins}, which can be collected then; ${isOne ? 'it is' : 'they are'} given up by force only`;
    throw new AppError({ code: 'engine/running', message, disposition: 'reject' });
  }
  await pinKeeper.giveUp(unclaimed);
  const done = `${pins} ${isOne ? 'was' : 'were'} given up by hand`;
  recorder.tell({ kind: 'pinsGivenUp', level: 'info', message: done });
  return done;
}
