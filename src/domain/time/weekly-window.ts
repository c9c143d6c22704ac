/** English names of the weekdays, in the order of a week (ISO 8601). */
export const WEEKDAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

/** Minutes of a week: the longest window. */
export const WEEK_MINUTES = 7 * 24 * 60;

/**
 * A window that recurs each week, on the wall clock of one time zone. It may cross midnight and the
 * end of the week, and be longer than a day.
 */
export interface WeeklyWindow {
  /** Days on which it begins, 0 (Monday) to 6 (Sunday). */
  readonly days: readonly number[];
  /** When it begins on these days, in minutes since midnight. */
  readonly startMinute: number;
  /** 1 to {@link WEEK_MINUTES}, on the wall clock. */
  readonly lengthMinutes: number;
}
