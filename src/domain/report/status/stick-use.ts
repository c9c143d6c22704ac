import type { Medium } from '../../model/medium.ts';
import { ACTIONS, type Does, isForPerson } from '../actions.ts';
import type { Snapshot } from '../snapshot.ts';
import type { Line } from './line.ts';

/** A thing that a person plugs in. The drop folder always exists. */
export function isStick({ isDropFolder, peer }: Pick<Medium, 'isDropFolder' | 'peer'>): boolean {
  return !isDropFolder && peer === undefined;
}

/** `free`: nothing on this node and no other node reads any of the sticks. */
export type StickUse = 'none' | 'in-use' | 'free';

export function stickUse(
  { observed, memory, assessment }: Snapshot,
  { waitingTransfers }: { readonly waitingTransfers: number },
): StickUse {
  const sticks = observed.media.filter(
    (medium) => isStick(medium) && medium.state.kind !== 'unmounted' && medium.state.kind !== 'failed',
  );
  if (sticks.length === 0) return 'none';
  const isRead = sticks.every(({ state, isBusy }) => state.kind === 'read' && state.isStale !== true && !isBusy);
  const isWorking =
    memory.running.length > 0 ||
    memory.copyingBytes !== undefined ||
    waitingTransfers > 0 ||
    assessment.adoptions.length > 0;
  const isNeeded =
    assessment.bundles.some(needsStick) || assessment.rejections.some(({ neededBy }) => neededBy !== undefined);
  return isRead && !isWorking && !isNeeded ? 'free' : 'in-use';
}

/** Whether a release takes something from its stick, or would if it could. */
function needsStick(entry: Snapshot['assessment']['bundles'][number]): boolean {
  const { media, isOnPeersOnly, neededBy, phase, withdrawn, absentImages, absentArtifacts, trouble } = entry;
  if (media.length === 0 || isOnPeersOnly === true) return false;
  if (neededBy !== undefined) return true;
  if (phase === 'retired' || withdrawn !== undefined) return false;
  const isDamaged = trouble?.code === 'engine/image-damaged' || trouble?.code === 'engine/documents-missing';
  return absentImages.length > 0 || absentArtifacts.length > 0 || isDamaged;
}

/** Whether the words ask a person for something, and not for patience. */
export function isActOfPerson(does: Does): boolean {
  return !['leave-in', 'wait', 'none'].includes(ACTIONS[does].action);
}

/** The line with the action that fits what the sticks are used for. */
export function settled(line: Line, use: StickUse): Line {
  const { does, stick } = line;
  if (use === 'in-use' && !isForPerson(does)) return { ...line, does: 'leave-in' };
  if (stick === undefined || use === 'none') return line;
  if (stick === 'stays' || use === 'in-use') return { ...line, does: 'leave-in' };
  return { ...line, does: does === 'done' ? 'done-remove' : removeOr(does) };
}

/** Another stick is needed, whether this one stays or not. */
function removeOr(does: Does): Does {
  if (ACTIONS[does].action === 'plug-in') return does;
  return isForPerson(does) ? 'remove-call' : 'remove';
}
