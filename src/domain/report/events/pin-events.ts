import { formatCount } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import type { UnclaimedPins } from '../../release/unclaimed-pins.ts';

/** The releases of unclaimed pins: `ocp 4.13.7 and ocp 4.13.8`. Undefined when not known. */
export function ownersOf(releases: readonly UnclaimedPins[]): string | undefined {
  const titles = releases.flatMap(({ name, version }) =>
    name === undefined || version === undefined ? [] : [bundleTitle({ name, version })],
  );
  return titles.length === 0 ? undefined : titles.join(' and ');
}

/**
 * All that a person has to know of unclaimed pins, in two sentences; undefined when there are none.
 */
function unclaimedMessage({ pins }: Pick<Assessment, 'pins'>): string | undefined {
  const { unclaimed, unclaimedReleases } = pins;
  if (unclaimed.length === 0) return undefined;
  const owners = ownersOf(unclaimedReleases);
  const isOne = unclaimed.length === 1;
  const of = owners === undefined ? '' : `, but to ${owners} before`;
  const stick = owners === undefined ? 'the stick of their release' : `the stick of ${owners}`;
  return `${formatCount(unclaimed.length, 'pinned image')} ${isOne ? 'belongs' : 'belong'} to no release that is known here${of}. The pins stay: plug in ${stick} to claim them, or give them up with 'stickpin unpin --unclaimed'`;
}

/** As {@link unclaimedMessage}, short enough for the end of a STATUS line. */
export function unclaimedNote({ pins }: Pick<Assessment, 'pins'>): string | undefined {
  const count = pins.unclaimed.length;
  if (count === 0) return undefined;
  const owners = ownersOf(pins.unclaimedReleases);
  const of = owners === undefined ? '' : ` (${owners})`;
  return `${formatCount(count, 'unclaimed pin')}${of} ${count === 1 ? 'is' : 'are'} kept: plug in the stick, see 'stickpin list'.`;
}

/**
 * Pins that became unclaimed, and such as were claimed again. `before`: undefined in the first
 * round, when all of them are reported.
 */
export function unclaimedEvents(before: Assessment | undefined, after: Assessment): Event[] {
  const was = new Set(before?.pins.unclaimed);
  const message = unclaimedMessage(after);
  const isGrown = after.pins.unclaimed.some((reference) => !was.has(reference));
  const grown: Event[] = isGrown && message !== undefined ? [{ kind: 'pinsUnclaimed', level: 'warn', message }] : [];
  return [...grown, ...claimEvents(was, after)];
}

function claimEvents(was: ReadonlySet<string>, { bundles, pins }: Assessment): Event[] {
  const claimed = new Set(pins.claimed.filter((reference) => was.has(reference)));
  if (claimed.size === 0) return [];
  return bundles.flatMap(({ bundle, phase }): Event[] => {
    if (phase === 'retired') return [];
    const count = bundle.contents.images.filter(({ pin, reference }) => pin && claimed.delete(reference)).length;
    if (count === 0) return [];
    const left = pins.unclaimed.length === 0 ? '' : `; ${pins.unclaimed.length} more are unclaimed`;
    const message = `${bundleTitle(bundle.payload)} has claimed ${formatCount(count, 'pinned image')} again${left}`;
    return [{ kind: 'pinsClaimed', level: 'info', bundleId: bundle.bundleId, message }];
  });
}
