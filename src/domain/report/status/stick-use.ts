import { isCut } from '../../decide/release-effects.ts';
import type { Medium } from '../../model/medium.ts';
import { isFolder } from '../../state/memory.ts';
import { ACTIONS, type Does, isForPerson } from '../actions.ts';
import type { Line } from '../line.ts';
import { isStick } from '../names.ts';
import type { Snapshot } from '../snapshot.ts';
import { isDecided } from './bundle-lines.ts';

/** Leaves out unmounted and unreadable sticks. */
export function sticksInUse(media: readonly Medium[]): readonly Medium[] {
  return media.filter((medium) => isStick(medium) && !['unmounted', 'failed'].includes(medium.state.kind));
}

/** `free` means that neither this node nor another one reads any of the sticks. */
export type StickUse = 'none' | 'in-use' | 'free';

export function stickUse(
  { observed, memory, assessment }: Snapshot,
  { waitingTransfers }: { readonly waitingTransfers: number },
): StickUse {
  const sticks = sticksInUse(observed.media);
  if (sticks.length === 0) return 'none';
  const isRead = sticks.every(({ state, isBusy }) => state.kind === 'read' && state.isStale !== true && !isBusy);
  const cut = memory.running.filter((task) => isCut(task, assessment));
  const isWorking =
    // Restoring the names of images needs no stick.
    memory.running.some((task) => task.kind !== 'restore-tags' && !cut.includes(task)) ||
    memory.copyingBytes !== undefined ||
    (waitingTransfers > 0 && cut.length === 0) ||
    assessment.adoptions.length > 0;
  const isNeeded =
    assessment.bundles.some(needsStick) || assessment.rejections.some(({ neededBy }) => neededBy !== undefined);
  return isRead && !isWorking && !isNeeded ? 'free' : 'in-use';
}

/** Whether a release loads from its stick, or would if it could. */
function needsStick(entry: Snapshot['assessment']['bundles'][number]): boolean {
  const { media, blobMedia, isOnPeersOnly, neededBy, phase, withdrawn } = entry;
  const { absentImages, absentArtifacts, trouble, reason } = entry;
  if (media.length + blobMedia.length === 0 || isOnPeersOnly === true) return false;
  if (neededBy !== undefined) return true;
  if (phase === 'retired' || withdrawn !== undefined || isDecided(entry)) return false;
  const isDamaged = trouble?.code === 'engine/image-damaged' || trouble?.code === 'engine/documents-missing';
  if (entry.unsyncedImages.length > 0 || reason?.code === 'engine/unchecked') return true;
  return absentImages.length > 0 || absentArtifacts.length > 0 || isDamaged;
}

/** Whether the words request an act of a person, and not patience. */
export function isActOfPerson(does: Does): boolean {
  return !['leave-in', 'wait', 'none'].includes(ACTIONS[does].action);
}

/** Returns the line with the action that fits the use of the sticks. It names several sticks. */
export function settled(line: Line, use: StickUse, media: readonly Medium[] = []): Line {
  const { does, stick } = line;
  if (use === 'in-use' && !isForPerson(does)) return { ...line, does: 'leave-in' };
  if (stick === undefined || use === 'none') return line;
  if (stick === 'stays' || use === 'in-use') return { ...line, does: 'leave-in' };
  const next = doneAnd[does] ?? removeOr(does);
  const sticks = media.filter((medium) => isStick(medium) && !isFolder(medium));
  const disks = new Set(sticks.map(({ label }) => label.replace(PARTITION, '')));
  const isNamed = disks.size > 1 && ACTIONS[next].action === 'remove';
  return { ...line, does: next, removed: isNamed ? sticksInUse(sticks).map(({ label }) => label) : [] };
}

/** Maps an action to the one that also frees the stick. */
const doneAnd: Partial<Record<Does, Does>> = { done: 'done-remove', 'done-admin': 'done-remove-admin' };

/** Matches the partition in `sdb1` and `mmcblk0p1`. */
const PARTITION = /(?<=[a-z])\d+$|(?<=\d)p\d+$/;

/** An action that needs another stick stays, whether this one stays or not. */
function removeOr(does: Does): Does {
  if (ACTIONS[does].action === 'plug-in') return does;
  if (isForPerson(does)) return 'remove-call';
  return ACTIONS[does].action === 'wait' ? 'remove-wait' : 'remove';
}
