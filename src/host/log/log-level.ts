/** The level of a log line. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** syslog(3) priorities, as `PRIORITY` in the journal. */
export const SYSLOG_PRIORITY: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

/** Whether a line of `level` is written when `threshold` is the lowest level. */
export function isLogged(level: LogLevel, threshold: LogLevel): boolean {
  return SYSLOG_PRIORITY[level] <= SYSLOG_PRIORITY[threshold];
}
