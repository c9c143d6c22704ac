import { rememberLast } from '../../platform/async/concurrency.ts';

/** A time during which at least one window is open, in milliseconds since the epoch. */
export interface Opening {
  /** Undefined when the window was already open at the given time. */
  readonly opensAt: number | undefined;
  /** The first moment after it. Undefined when it does not close within {@link LOOK_AHEAD_MS}. */
  readonly closesAt: number | undefined;
}

/** A part of a week on the wall clock, from `start` and before `start + length`. */
interface Span {
  readonly startMs: number;
  readonly lengthMs: number;
}

/** The longest window, in minutes of a week. */
export const WEEK_MINUTES = 7 * 24 * 60;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = WEEK_MINUTES * MINUTE_MS;
/** 1970-01-01 was a Thursday. */
const EPOCH_IN_WEEK_MS = 3 * 24 * HOUR_MS;

/** Covers three weekly openings, since the wall clock may skip one or two. */
const LOOK_AHEAD_MS = 6 * WEEK_MS;
/** No zone has two changes of its offset within this time. */
const STRIDE_MS = 6 * HOUR_MS;
/** The last time that a Date can hold (ECMA-262, "Time Values"). */
const LAST_TIME = 8.64e15;

/**
 * Returns the next openings. The first may already be open. Windows that overlap or touch make one
 * opening. Windows follow the wall clock: on the day of a clock change one may be longer, shorter,
 * open twice, or left out.
 *
 * @param zone one that `isTimeZone` accepts
 */
export function nextOpenings(
  windows: readonly WeeklyWindow[],
  zone: string,
  from: number,
  count: number,
): readonly Opening[] {
  const until = from + LOOK_AHEAD_MS;
  if (!(from > -LAST_TIME + WEEK_MS && until < LAST_TIME - WEEK_MS)) return [];
  const spans = spansOf(windows);
  const offset = offsetOf(zone);
  const openings: Opening[] = [];
  let open: { readonly opensAt: number | undefined } | undefined;
  for (let time = from; openings.length < count; time = nextChange(spans, offset, time)) {
    if (time >= until) return open === undefined ? openings : [...openings, { ...open, closesAt: undefined }];
    const isOpen = isIn(spans, weekTime(time, offset(time)));
    if (isOpen) open ??= { opensAt: time === from ? undefined : time };
    else if (open !== undefined) {
      openings.push({ ...open, closesAt: time });
      open = undefined;
    }
  }
  return openings;
}

function spansOf(windows: readonly WeeklyWindow[]): readonly Span[] {
  return windows.flatMap(({ days, startMinute, lengthMinutes }) =>
    days.map((day) => ({
      startMs: (day * 24 * 60 + startMinute) * MINUTE_MS,
      lengthMs: lengthMinutes * MINUTE_MS,
    })),
  );
}

/** Returns milliseconds since Monday 00:00 on the wall clock. */
function weekTime(time: number, offsetMs: number): number {
  return modulo(time + offsetMs + EPOCH_IN_WEEK_MS, WEEK_MS);
}

function isIn(spans: readonly Span[], wallMs: number): boolean {
  return spans.some(({ startMs, lengthMs }) => modulo(wallMs - startMs, WEEK_MS) < lengthMs);
}

/** Returns the next moment that may open or close a window. It may be too early, never late. */
function nextChange(spans: readonly Span[], offset: Offset, time: number): number {
  const offsetMs = offset(time);
  const wallMs = weekTime(time, offsetMs);
  const waits = spans.flatMap(({ startMs, lengthMs }) => [
    modulo(startMs - wallMs, WEEK_MS) || WEEK_MS,
    modulo(startMs + lengthMs - wallMs, WEEK_MS) || WEEK_MS,
  ]);
  const next = time + Math.min(STRIDE_MS, ...waits);
  return offset(next) === offsetMs ? next : offsetChange(offset, time, next);
}

function offsetChange(offset: Offset, before: number, after: number): number {
  const offsetMs = offset(before);
  let [same, other] = [before, after];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if (offset(middle) === offsetMs) same = middle;
    else other = middle;
  }
  return other;
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}

/** The order of a week (ISO 8601). */
export const WEEKDAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

/** A window may cross midnight and the end of the week, and be longer than a day. */
export interface WeeklyWindow {
  /** The days on which it begins, 0 (Monday) to 6 (Sunday). */
  readonly days: readonly number[];
  /** Minutes since midnight at which it begins. */
  readonly startMinute: number;
  /** 1 to {@link WEEK_MINUTES}, on the wall clock. */
  readonly lengthMinutes: number;
}

export const UTC = 'UTC';

/** Milliseconds by which the wall clock of a zone is ahead of UTC. */
type Offset = (time: number) => number;

/** Accepts names of the IANA database (`Europe/Berlin`), but no plain offset (`+01:00`). */
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

/** Reads ECMA-402's `Intl`. @param zone one that {@link isTimeZone} accepts */
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

/** A new format reads the zone data again, so the last one is kept. A node has one zone. */
const offsetFormat = rememberLast(
  (timeZone) => new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' }),
);

interface WallTime {
  /** The first three letters of the English name. */
  readonly weekday: string;
  /** `2026-11-28` */
  readonly date: string;
  /** `23:30` */
  readonly time: string;
}

/** @param time milliseconds since the epoch, within the years 1 to 9999 */
export function wallTimeOf(time: number, zone: string): WallTime {
  const wall = new Date(time + offsetOf(zone)(time));
  const [date = '', clock = ''] = wall.toISOString().split('T');
  const weekday = WEEKDAYS[(wall.getUTCDay() + 6) % 7] ?? '';
  return { weekday: weekday.slice(0, 3), date, time: clock.slice(0, 5) };
}
