import type { Log, LogFields } from '../../platform/log.ts';
import { plainDocument, plainLines, plainText } from '../../platform/plain-text.ts';
import { createDatagramSender, type DatagramSender } from '../notify/datagram-sender.ts';
import { errorFields } from './error-fields.ts';
import { isLogged, type LogLevel, SYSLOG_PRIORITY } from './log-level.ts';

/** The socket of journald's native protocol. */
const JOURNAL_SOCKET = '/run/systemd/journal/socket';

/** A log to the journal that can be closed. */
export interface JournalLog extends Log {
  close(): void;
}

/** Maximum size of a value when the whole entry does not fit into one datagram. */
const CUT_BYTES = 16_384;

/**
 * A log with journald's native protocol (systemd, JOURNAL_NATIVE_PROTOCOL): `PRIORITY`, `MESSAGE`,
 * `SYSLOG_IDENTIFIER` and every field in upper case (`bundleId` → `BUNDLE_ID`, `messageId` →
 * `MESSAGE_ID`). `err` becomes `ERROR`, `ERROR_CODE` and `ERROR_STACK`.
 */
export async function createJournalLog(options: {
  readonly level: LogLevel;
  readonly socketPath?: string;
}): Promise<JournalLog> {
  const sender = await createDatagramSender(options.socketPath ?? JOURNAL_SOCKET);
  const at = (level: LogLevel) => (fields: LogFields, message: string) => {
    if (isLogged(level, options.level)) sendEntry(sender, entryOf(level, fields, message));
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    close: () => sender.close(),
  };
}

type Entry = readonly (readonly [name: string, value: Buffer])[];

function entryOf(level: LogLevel, fields: LogFields, message: string): Entry {
  const { err, ...others } = fields;
  const all = { ...(err === undefined ? {} : errorFields(err)), ...others };
  return [
    // With control characters journalctl shows `[… blob data]` instead of the text. A line end, as
    // in the name of a folder on a stick, would begin a line that looks like another message.
    ['MESSAGE', Buffer.from(plainText(message))],
    ['PRIORITY', Buffer.from(String(SYSLOG_PRIORITY[level]))],
    ['SYSLOG_IDENTIFIER', Buffer.from('stickpin')],
    ...Object.entries(all).flatMap(([key, value]) => {
      const name = fieldName(key);
      return name === undefined || value === undefined ? [] : [[name, Buffer.from(textOf(key, value))] as const];
    }),
  ];
}

/**
 * A valid field name (systemd.journal-fields(7)): upper case, digits and underscores, no leading
 * underscore, at most 64 characters.
 */
function fieldName(key: string): string | undefined {
  const name = key
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toUpperCase()
    .replace(/[^A-Z0-9_]/g, '_')
    .replace(/^[_0-9]+/, '');
  return name === '' || name.length > 64 ? undefined : name;
}

function textOf(key: string, value: unknown): string {
  if (typeof value === 'string') return key === 'errorStack' ? plainLines(value) : plainText(value);
  if (typeof value === 'object') return JSON.stringify(plainDocument(value));
  return String(value);
}

function sendEntry(sender: DatagramSender, entry: Entry): void {
  // Values are cut when the entry is too long. journald also takes a memory file of any size, but
  // Node.js can't pass a file descriptor.
  if (sender.send(encode(entry)) === 'too-large') sender.send(encode(entry.map(cut)));
}

function cut([name, value]: Entry[number]): Entry[number] {
  if (value.length <= CUT_BYTES) return [name, value];
  return [name, Buffer.concat([value.subarray(0, CUT_BYTES), Buffer.from(` … (${value.length} bytes)`)])];
}

function encode(entry: Entry): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of entry) {
    if (value.includes(0x0a)) {
      const sizeBytes = Buffer.alloc(8);
      sizeBytes.writeBigUInt64LE(BigInt(value.length));
      parts.push(Buffer.from(`${name}\n`), sizeBytes, value, Buffer.from('\n'));
    } else {
      parts.push(Buffer.from(`${name}=`), value, Buffer.from('\n'));
    }
  }
  return Buffer.concat(parts);
}
