import type { Log, LogFields } from '../../src/platform/log.ts';

/** One line as it was logged. */
interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: LogFields;
  readonly message: string;
}

/** A log that keeps its lines for a test to look at. */
export interface RecordingLog extends Log {
  readonly lines: readonly LoggedLine[];
}

/** Makes an empty {@link RecordingLog}. */
export function createRecordingLog(): RecordingLog {
  const lines: LoggedLine[] = [];
  const at = (level: LoggedLine['level']) => (fields: LogFields, message: string) => {
    lines.push({ level, fields, message });
  };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
