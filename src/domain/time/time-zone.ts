import { rememberLast } from '../../platform/async/remember-last.ts';

/** The zone without daylight saving time and without offset. */
export const UTC = 'UTC';

/** Milliseconds by which the wall clock of a zone is ahead of UTC at a time. */
export type Offset = (time: number) => number;

/**
 * Whether `name` is a time zone of the IANA database that this program knows, as `Europe/Berlin`.
 * A plain offset, as `+01:00`, is none.
 */
export function isTimeZone(name: string): boolean {
  if (name === UTC) return true; // most nodes: it spares them the zone data, which loads slowly
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    offsetFormat(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * The offset of a zone over time, by the time zone data of this program (ECMA-402, `Intl`).
 *
 * @param zone one that {@link isTimeZone} accepts
 */
export function offsetOf(zone: string): Offset {
  if (zone === UTC) return () => 0; // most nodes, see isTimeZone
  const format = offsetFormat(zone);
  return (time) => {
    const name = format.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? '';
    const [, sign = '+', hours = 0, minutes = 0, seconds = 0] = OFFSET.exec(name) ?? [];
    const size = (Number(hours) * 60 + Number(minutes)) * 60_000 + Number(seconds) * 1_000;
    return sign === '+' ? size : -size;
  };
}

/** `GMT`, `GMT-05:00` or `GMT+00:53:28`. */
const OFFSET = /^GMT([+-])(\d{2}):(\d{2})(?::(\d{2}))?$/;

/** Kept for the last zone, of which a node has one: a new format reads the zone data again. */
const offsetFormat = rememberLast(
  (timeZone) => new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' }),
);
