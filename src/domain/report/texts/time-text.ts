import { assertNever } from '../../../platform/app-error.ts';
import type { RuleHold } from '../../gates/gates.ts';
import { CREATED_AHEAD_MS } from '../../time/clock-fault.ts';
import { type Opening, wallTimeOf } from '../../time/windows.ts';

type DataOf<Code extends RuleHold['code']> = Extract<RuleHold, { readonly code: Code }>['data'];

export function rolloutClause({ turn, share, wariness, source, ...clock }: DataOf<'rule/rollout'>): string {
  const when =
    turn === undefined
      ? `its rule "rollout" is for ${percentText(share)} of the nodes, and this node is not one of them`
      : `its rule "rollout" allows it on this node from ${timeText(turn)}${doubt(clock)}`;
  const cautious = `wariness ${Number(wariness.toPrecision(3))}`;
  return source === 'none'
    ? `${when} (${cautious}, since /etc/machine-id has no usable id; the setting update.rollout_wariness replaces it)`
    : `${when} (${cautious})`;
}

export function windowClause({ opensAt, closesAt, timeZone, ...clock }: DataOf<'window'>): string {
  if (opensAt === undefined) return 'it waits for a window, and no window opens in the next weeks';
  return `it waits for the next window, ${openingText({ opensAt, closesAt }, timeZone)}${doubt(clock)}`;
}

export function clockClause({ kind, least, hasWindow, hasRollout, hasEndOfLife }: DataOf<'clock'>): string {
  const unjudged = [
    ...(hasWindow ? ['the windows of this node'] : []),
    ...(hasRollout ? ['its rollout'] : []),
    ...(hasEndOfLife ? ['its end of life'] : []),
  ];
  return `${clockWrong(kind, least)}; until then ${unjudged.join(' and ')} can't be judged`;
}

function clockWrong(kind: DataOf<'clock'>['kind'], least: number): string {
  switch (kind) {
    case 'before-build':
      return `the clock of this node is wrong: it shows a time before ${timeText(least)}, when stickpin was built. Set the clock`;
    case 'before-bundle':
      return `the clock of this node is wrong: it shows a time before ${timeText(least)}, when a bundle of its stream was made. Set the clock`;
    case 'far-before-bundle':
      return `the clock of this node is synchronised, and a bundle of its stream says that it was made on ${timeText(least + CREATED_AHEAD_MS)}, more than 24 h later: one of them is wrong. Check what the clock is synchronised with`;
    default:
      return assertNever(kind);
  }
}

export function doubt({ isClockUnsure }: { readonly isClockUnsure: boolean }): string {
  return isClockUnsure ? ", by this node's clock, which is not synchronised" : '';
}

/**
 * `Sat 2026-11-28 23:30 to Sun 2026-11-29 00:30 (Europe/Berlin)`, on the wall clock of the zone.
 */
export function openingText({ opensAt, closesAt }: Opening, zone: string): string {
  const begin = opensAt === undefined ? 'open now' : wallText(opensAt, zone);
  const end = closesAt === undefined ? 'with no end within weeks' : `to ${wallText(closesAt, zone)}`;
  return `${begin} ${end} (${zone})`;
}

/** `12.5 %`. */
export function percentText(share: number): string {
  return `${Number((share * 100).toPrecision(6))} %`;
}

/** `Sat 2026-11-28 23:30`. */
export function wallText(time: number, zone: string): string {
  const { weekday, date, time: clock } = wallTimeOf(time, zone);
  return `${weekday} ${date} ${clock}`;
}

/** The last time that a Date can hold (ECMA-262, "Time Values"). */
const LAST_TIME = 8.64e15;

/** `2026-03-01T08:00:00Z`. */
export function timeText(time: number): string {
  return Math.abs(time) > LAST_TIME ? 'the year 275760 or later' : new Date(time).toISOString().replace('.000Z', 'Z');
}
