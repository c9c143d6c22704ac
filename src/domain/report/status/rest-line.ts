import { sentence } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import type { Medium } from '../../model/medium.ts';
import type { LifecycleAssessment } from '../../release/lifecycle.ts';
import type { Observed } from '../../state/state.ts';
import { briefName } from '../brief/brief-name.ts';
import { fitted } from '../brief/fitted.ts';
import { reasonAmong, titleAmong } from '../brief/namesake.ts';
import { unmountedText } from '../reasons/media-text.ts';
import { foremost, needsOtherMedium, otherMediumNote, readyLine, withoutOutdated } from './bundle-lines.ts';

/**
 * The line while no work is running: the ready or running release, and the next action of a person.
 */
export function restLine(observed: Observed, { bundles, life, pins }: Assessment): string {
  const unmounted = observed.media.findLast(({ state }) => state.kind === 'unmounted');
  const behind = bundles.findLast(needsOtherMedium);
  const ask = behind === undefined ? '' : ` ${otherMediumNote(behind, bundles)}`;
  const note = unmounted === undefined ? '' : ` ${sentence(unmountedText({ label: briefName(unmounted.label) }))}`;
  const waiting = foremost(
    bundles.filter((entry) => entry.phase === 'ready'),
    bundles,
  );
  if (waiting !== undefined) return `${readyLine(waiting, bundles)}${ask}${note}`;
  const empty = observed.media.findLast(isEmptyStick);
  const foreign =
    empty === undefined
      ? ''
      : ` ${briefName(empty.label)} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json).`;
  const activated = [...withoutOutdated(bundles)]
    .filter((entry) => entry.phase !== 'retired' && !needsOtherMedium(entry))
    .sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined && behind?.reason !== undefined)
    return fitted([sentence(reasonAmong(behind.reason, behind.bundle, bundles)), note.trim()]);
  if (activated === undefined) {
    const none = pins.unclaimed.length === 0 ? 'No bundle yet.' : 'No bundle is known here.';
    return `Idle. ${none}${foreign}${note || ' Waiting for media.'}`;
  }
  return `Idle. ${lifecycleLine(activated, titleAmong(activated.bundle, bundles), life)}${ask}${foreign}${note || ' Waiting for media.'}`;
}

/** The running release, and what it still needs to be proven. */
function lifecycleLine({ bundle, phase }: BundleAssessment, title: string, { soaks }: LifecycleAssessment): string {
  const images = formatCount(bundle.contents.images.length, 'image');
  if (phase === 'proven') return `${title} proven (${images} pinned).`;
  const soak = soaks.get(bundle.bundleId);
  if (phase !== 'active' || soak?.kind !== 'soaking') return `${title} ${phase} (${images} present and pinned).`;
  if (soak.lacking.length > 0)
    return `${title} active (${images} pinned), waits for ${soak.lacking.join(', ')} to run.`;
  if (soak.failing.length > 0) return `${title} active (${images} pinned), but ${soak.failing.join(', ')} failed.`;
  return `${title} active (${images} pinned), proven in about ${formatDuration(soak.remainingMs ?? 0)}.`;
}

/** The drop folder is there all the time, and mostly empty. */
export function isEmptyStick({ state, isDropFolder, peer }: Medium): boolean {
  return state.kind === 'read' && state.bundles.length === 0 && !isDropFolder && peer === undefined;
}
