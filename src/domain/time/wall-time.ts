import { offsetOf } from './time-zone.ts';
import { WEEKDAYS } from './weekly-window.ts';

/** What calendar and clock on a wall show. */
export interface WallTime {
  /** The first three letters of the weekday, in English. */
  readonly weekday: string;
  /** `2026-11-28` */
  readonly date: string;
  /** `23:30` */
  readonly time: string;
}

/** The wall time of a zone. @param time milliseconds since the epoch, within the years 1 to 9999 */
export function wallTimeOf(time: number, zone: string): WallTime {
  const wall = new Date(time + offsetOf(zone)(time));
  const [date = '', clock = ''] = wall.toISOString().split('T');
  const weekday = WEEKDAYS[(wall.getUTCDay() + 6) % 7] ?? '';
  return { weekday: weekday.slice(0, 3), date, time: clock.slice(0, 5) };
}
