import { type Opening, wallTimeOf } from '../../model/windows.ts';

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
