import * as v from 'valibot';
import { isTimeZone } from '../time/time-zone.ts';
import { WEEK_MINUTES, WEEKDAYS, type WeeklyWindow } from '../time/weekly-window.ts';
import type { ValueType } from './value-types.ts';

/** A time zone: `UTC`, `localtime` (that of the node), or a name of the IANA database. */
export const timeZone: ValueType<string> = {
  name: 'string',
  range: '`"UTC"`, `"localtime"`, or a name of the IANA time zone database',
  schema: v.pipe(
    v.string('must be a time zone'),
    v.check(
      (name) => name === 'localtime' || isTimeZone(name),
      'must be a time zone, such as "UTC", "localtime" or "Europe/Berlin"',
    ),
  ),
};

/** Both the name of a weekday and its first three letters, with its place in a week. */
const DAYS = new Map(
  WEEKDAYS.flatMap((name, day) => [name, name.slice(0, 3)].map((text) => [text.toLowerCase(), day] as const)),
);
const DAY_FAULT = 'must be a weekday, such as "Sat" or "Saturday"';

const day = v.pipe(
  v.string(DAY_FAULT),
  v.transform((name) => DAYS.get(name.toLowerCase())),
  v.number(DAY_FAULT),
);

const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const LENGTH_FAULT = `must be a whole number of minutes, 1 to ${WEEK_MINUTES}`;

const weeklyWindow = v.pipe(
  v.strictObject({
    days: v.pipe(
      v.array(day, 'must be a list of weekdays, as ["Sat", "Sun"]'),
      v.minLength(1, 'must name at least one weekday'),
      v.check((days) => new Set(days).size === days.length, 'must name each weekday once'),
    ),
    start_time: v.pipe(
      v.string('must be a time in quotes, such as "23:30"'),
      v.regex(TIME, 'must be a time from "00:00" to "23:59"'),
    ),
    length_minutes: v.pipe(
      v.number(LENGTH_FAULT),
      v.integer(LENGTH_FAULT),
      v.minValue(1, LENGTH_FAULT),
      v.maxValue(WEEK_MINUTES, LENGTH_FAULT),
    ),
  }),
  v.transform(({ days, start_time, length_minutes }): WeeklyWindow => {
    const [hours = 0, minutes = 0] = start_time.split(':').map(Number);
    return { days, startMinute: hours * 60 + minutes, lengthMinutes: length_minutes };
  }),
);

/** Most windows of a node. */
const MAX_WINDOWS = 100;

/** Windows that recur each week: `days`, `start_time` and `length_minutes` of each. */
export const weeklyWindows: ValueType<readonly WeeklyWindow[]> = {
  name: 'list of tables',
  range: '`days`, `start_time` (`"hh:mm"`) and `length_minutes` (1 to 10080)',
  schema: v.pipe(
    v.array(weeklyWindow, 'must be a list of tables, each under [[update.windows]]'),
    v.maxLength(MAX_WINDOWS, `must have at most ${MAX_WINDOWS} windows`),
  ),
};
