import type { ActivationHold } from '../activation/gates.ts';
import { isLoaded } from '../fleet/awaited-node.ts';
import { REACHED, type WaitGoal } from '../fleet/turn.ts';
import type { Phase } from '../model/condition.ts';
import type { Reason } from '../model/reason.ts';
import type { BundleReport } from './status-schema.ts';

/** The facts about the awaited release. `phase` is absent for a bundle without images. */
export interface AwaitedRelease {
  readonly phase?: Phase | undefined;
  readonly hold?: string | undefined;
  readonly reason?: ShownCode | undefined;
  readonly current?: boolean | undefined;
  readonly conditions?: BundleReport['conditions'] | undefined;
  readonly activationHolds?: BundleReport['activationHolds'] | undefined;
}

interface ShownCode {
  readonly code: string;
  readonly message: string;
}

/** `ended` means that it does not get there automatically. `state` describes its present state. */
export type Advance =
  | { readonly kind: 'reached' }
  | { readonly kind: 'waiting'; readonly state: string }
  | { readonly kind: 'ended'; readonly reason: ShownCode };

const MANUAL = 'engine/manual' satisfies ActivationHold['code'];
const ROLLED_BACK = 'engine/rolled-back' satisfies Reason['code'];

/** Whether a node's release is there, will come, or will not. Undefined: not on the node. */
export function advanceOf(release: AwaitedRelease | undefined, goal: WaitGoal): Advance {
  if (release === undefined) return { kind: 'waiting', state: 'is not on this node yet: plug in its stick' };
  const { phase, reason } = release;
  if (phase === undefined) return ended('wait/no-images', 'it has no images, only advisories or keys');
  if (phase === 'rejected') return { kind: 'ended', reason: reason ?? UNSAID };
  if (phase === 'retired') {
    return ended('wait/retired', "it is retired; 'stickpin activate' loads it again");
  }
  if (goal === 'ready') {
    return isLoaded({ phase }) && !lacksImages(release) ? { kind: 'reached' } : waiting(release);
  }
  if (reason?.code === ROLLED_BACK) return { kind: 'ended', reason };
  if (phase === 'superseded') {
    return ended('wait/superseded', 'a newer release took its place, and it is kept as the fallback');
  }
  // A proof stays valid when the next release is activated.
  const isInForce = release.current === true || (phase === 'proven' && goal !== 'activated');
  if (REACHED[goal].has(phase) && isInForce) return { kind: 'reached' };
  if (REACHED.activated.has(phase) && !isInForce) {
    return ended('wait/replaced', 'another release of its stream was activated after it');
  }
  return waiting(release);
}

const UNSAID: ShownCode = { code: 'wait/rejected', message: 'it was rejected' };

function ended(code: string, message: string): Advance {
  return { kind: 'ended', reason: { code, message } };
}

function lacksImages({ conditions = [] }: AwaitedRelease): boolean {
  return conditions.some(({ type, status }) => ['Preloaded', 'Pinned'].includes(type) && status === 'False');
}

function waiting({ phase, hold, reason, activationHolds = [] }: AwaitedRelease): Advance {
  const [first] = phase === 'ready' ? activationHolds : [];
  const byHand = phase === 'ready' ? activationHolds.find(({ code }) => code === MANUAL) : undefined;
  if (byHand !== undefined) return ended(byHand.code, byHand.message);
  const why = reason?.message ?? first?.message;
  const what = hold ?? (first === undefined ? undefined : 'activation held');
  return { kind: 'waiting', state: `is ${phase}${what ? ` (${what})` : ''}${why ? `: ${why}` : ''}` };
}
