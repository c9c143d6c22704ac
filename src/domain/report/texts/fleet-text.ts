import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { WantedRelease } from '../../fleet/turn.ts';
import type { ActivationHold } from '../../gates/gates.ts';
import { bundleTitle } from '../../model/bundle.ts';

type DataOf<Code extends ActivationHold['code']> = Extract<ActivationHold, { readonly code: Code }>['data'];

export function rolledBackClause({ node, absent }: DataOf<'fleet/rolled-back'>): string {
  return `it was rolled back on ${node}, and is not activated on other nodes automatically${leftOut(absent)}`;
}

export function notReadyClause(data: DataOf<'fleet/not-ready'>): string {
  const { node, more, absent } = data;
  const others = more === 0 ? '' : `; ${formatCount(more, 'other node')} too`;
  return `all nodes load it first, and ${node} ${loadText(data)}${others}${leftOut(absent)}`;
}

function loadText({ phase, percent, reason, isUnknown }: DataOf<'fleet/not-ready'>): string {
  if (isUnknown) return 'has too many releases to tell whether it has it';
  if (phase === undefined) return 'does not have it yet';
  if (percent !== undefined) return `has loaded ${percent} % of it`;
  return reason === undefined ? `has not loaded it yet (${phase})` : `does not load it (${phase}: ${reason})`;
}

export function nobodyKnownClause({ waitMs, isFirst }: DataOf<'fleet/nobody-known'>): string {
  const wait = formatDuration(waitMs);
  const ready = isFirst ? '' : ', and the release was ready for as long';
  return `no other node is known, and the Kubernetes API has not told that there is none (see 'stickpin fleet status'); this node counts as alone once stickpin-fleet.service has looked for others for ${wait}${ready}`;
}

export function orderClause({ node, phase, reason, absent }: DataOf<'fleet/order'>): string {
  const what = phase === 'activated' ? 'does not run from it' : 'has not activated it';
  const why = reason === undefined ? '' : ` (${reason})`;
  return `nodes activate it by name, one after the other, and ${node} ${what} yet${why}${leftOut(absent)}`;
}

function leftOut(absent: string | undefined): string {
  return absent === undefined ? '' : `. Left out, since they are silent: ${absent}`;
}

export function wantedReleaseText({ name, version, nodes }: WantedRelease): string {
  const [first = '', ...others] = nodes;
  const where = others.length === 0 ? first : `${first} and ${formatCount(others.length, 'other node')}`;
  return `${bundleTitle({ name, version })} is loaded on ${where}, and no node can give it: plug its stick into any node.`;
}
