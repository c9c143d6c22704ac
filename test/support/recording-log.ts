import type { Log, LogFields } from '../../src/platform/log.ts';
import { type MessageKind, messageIds } from '../../src/platform/message-ids.ts';

/** One line as it was logged. */
interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: LogFields;
  readonly message: string;
}

/** A log that keeps its lines for a test to look at. */
export interface RecordingLog extends Log {
  readonly lines: readonly LoggedLine[];
  /** The kind of each line that has a `messageId`, in order. */
  kinds(): readonly MessageKind[];
}

const kindsById: ReadonlyMap<string, MessageKind> = new Map(
  (Object.keys(messageIds) as MessageKind[]).map((kind) => [messageIds[kind], kind]),
);

/** Makes an empty {@link RecordingLog}. */
export function createRecordingLog(): RecordingLog {
  const lines: LoggedLine[] = [];
  const at = (level: LoggedLine['level']) => (fields: LogFields, message: string) => {
    lines.push({ level, fields, message });
  };
  const kinds = () => lines.flatMap(({ fields }) => kindsById.get(fields.messageId ?? '') ?? []);
  return { lines, kinds, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
