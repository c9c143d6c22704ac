import { assertNever } from '../../../platform/app-error.ts';
import { clip, oneLine } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import type { ActivationHold } from '../../gates/gates.ts';
import { CREATED_AHEAD_MS } from '../../time/clock-fault.ts';
import { MAX_LINE_LENGTH, SEE_LIST, shortened } from '../brief/fitted.ts';
import { commandNameAmong, titleAmong } from '../brief/namesake.ts';
import { isRuleHold, toldHold } from '../hold-text.ts';
import { hookClause } from '../texts/hook-text.ts';
import { timeText, wallText } from '../texts/time-text.ts';
import { stickNote } from './stick-note.ts';

type Entries = Parameters<typeof titleAmong>[1];

/**
 * Why a release that is awaited is not activated, for STATUS: at most 200 characters. The title and
 * what holds it come first, then that its stick may go; `stickpin list` has the whole reason.
 * Undefined when nothing holds it of which a person should know.
 */
export function heldLine(entry: BundleAssessment, bundles: Entries): string | undefined {
  const hold = toldHold(entry);
  if (hold === undefined) return undefined;
  const { bundle } = entry;
  const title = titleAmong(bundle, bundles);
  const head = `${title} is not activated${bundle.activatedAt === undefined ? '' : ' again'}: `;
  const command = `'stickpin activate ${commandNameAmong(bundle, bundles)}'`;
  const advice = adviceFor(hold, command);
  const why = oneLine(shortClause(hold));
  const images = `${formatCount(bundle.contents.images.length, 'image')} present and pinned.`;
  const stick = stickNote(entry);
  const lines = [`${head}${why}. ${stick}${advice} ${images}`, `${head}${why}. ${stick}${advice}`];
  const fitting = lines.find((line) => line.length <= MAX_LINE_LENGTH);
  if (fitting !== undefined) return fitting;
  const end = `. ${stick}${SEE_LIST}`;
  return `${head}${shortened(why, MAX_LINE_LENGTH - head.length - end.length)}${end}`;
}

/** Holds that no request ends. */
const WITHOUT_COMMAND: ReadonlySet<string> = new Set<ActivationHold['code']>([
  'hook',
  'engine/tag-of-other-stream',
  'engine/pulls-from-elsewhere',
]);

function adviceFor(hold: ActivationHold, command: string): string {
  if (WITHOUT_COMMAND.has(hold.code)) return SEE_LIST;
  if (hold.gate !== 'fleet' && (!isRuleHold(hold) || hold.releasedBy === 'person'))
    return `To activate it anyway: ${command}.`;
  return `It is activated automatically; to do it now: ${command}.`;
}

/** What holds it, in few words. */
function shortClause(hold: ActivationHold): string {
  const { gate } = hold;
  switch (hold.code) {
    case 'trust/withdrawn':
      return 'it is not trusted now';
    case 'engine/cancelled':
      return 'its preload was cancelled';
    case 'engine/denied':
      return 'it was rolled back on this node';
    case 'engine/not-next':
      return `${hold.data.next} is activated instead`;
    case 'rule/from':
      return `rule "from" needs ${clip(hold.data.from, 100)}, ${hold.data.current} is current`;
    case 'rule/barrier':
      return barrierWords(hold.data);
    case 'rule/downgrade':
      return `it is a downgrade from ${hold.data.current}`;
    case 'rule/deadend':
      return `the current ${hold.data.current} is a dead end (${hold.data.reason})`;
    case 'rule/rollout':
      return hold.data.turn === undefined
        ? 'the rollout does not include this node'
        : `rollout, this node from ${timeText(hold.data.turn)}`;
    case 'rule/end-of-life':
      return `its end of life was ${hold.data.endOfLife}`;
    case 'engine/floor-unknown':
      return 'the records of earlier releases are lost';
    case 'engine/below-floor':
      return `its sequence ${hold.data.sequence} is below ${hold.data.floor}, activated before`;
    case 'window':
      return hold.data.opensAt === undefined
        ? 'no window opens in the next weeks'
        : `next window ${wallText(hold.data.opensAt, hold.data.timeZone)} (${hold.data.timeZone})`;
    case 'clock':
      return clockWords(hold.data);
    case 'engine/manual':
      return 'a person has to activate it';
    case 'engine/tag-of-other-stream':
      return `tag ${hold.data.tag} belongs to ${hold.data.holder}`;
    case 'engine/pulls-from-elsewhere':
      return hold.data.kind === 'unknown'
        ? 'it is not known which images this node uses'
        : `no release has image ${hold.data.image}`;
    case 'fleet/unknown':
    case 'fleet/nobody-known':
    case 'fleet/rolled-back':
    case 'fleet/not-ready':
    case 'fleet/order':
      return fleetWords(hold);
    case 'engine/tags-in-motion':
      return 'another release is being activated';
    case 'engine/activation-failed':
      return 'its activation failed and is tried again';
    case 'hook':
      return hookWords(hold.data);
    default:
      return `gate "${gate}" holds it`;
  }
}

function clockWords({ kind, least }: Extract<ActivationHold, { readonly code: 'clock' }>['data']): string {
  return kind === 'far-before-bundle'
    ? `this node's synchronised clock is over 24 h behind a bundle made on ${timeText(least + CREATED_AHEAD_MS)}`
    : `the clock of this node is wrong, set it (it is before ${timeText(least)})`;
}

function fleetWords(hold: Extract<ActivationHold, { readonly code: `fleet/${string}` }>): string {
  switch (hold.code) {
    case 'fleet/unknown':
      return 'stickpin-fleet.service does not answer';
    case 'fleet/nobody-known':
      return 'no other node is known yet';
    case 'fleet/rolled-back':
      return `it was rolled back on ${hold.data.node}`;
    case 'fleet/not-ready':
      return `waits for ${nodesText(hold.data)} to load it`;
    case 'fleet/order':
      return hold.data.phase === 'activated'
        ? `waits for containers of ${hold.data.node} to run from it`
        : `waits for ${hold.data.node} to activate it`;
    default:
      return assertNever(hold);
  }
}

function nodesText({ node, more }: Extract<ActivationHold, { readonly code: 'fleet/not-ready' }>['data']): string {
  return more === 0 ? node : `${node} and ${formatCount(more, 'other node')}`;
}

function barrierWords({
  barrier,
  lacks,
  reason,
}: Extract<ActivationHold, { readonly code: 'rule/barrier' }>['data']): string {
  const what = {
    bundle: 'comes first and is not here: plug in its stick',
    trust: 'comes first and is rejected or not trusted',
    activation: 'comes first',
    proof: 'must be proven first',
  }[lacks];
  return `barrier ${barrier} ${what} (${reason})`;
}

function hookWords(data: Extract<ActivationHold, { readonly code: 'hook' }>['data']): string {
  const { unit, state } = data;
  if (state === 'retry') return hookClause(data);
  const what = { files: 'waits for its files', start: 'has to run first', end: 'runs' }[state];
  return `hook before-activate (${unit}) ${what}`;
}
