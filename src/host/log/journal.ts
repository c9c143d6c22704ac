import type { Log, LogFields } from '../../platform/log.ts';
import { plainDocument, plainLines } from '../../platform/plain-text.ts';
import { createDatagramSender, type DatagramSender } from '../notify/datagram-sender.ts';
import { errorFields } from './error-fields.ts';
import { isLogged, type LogLevel, SYSLOG_PRIORITY } from './log-level.ts';

/** Where journald listens for its native protocol. */
const JOURNAL_SOCKET = '/run/systemd/journal/socket';

/** A log into the journal, and its socket. */
export interface JournalLog extends Log {
  close(): void;
}

/**
 * Bytes that a value is cut to when the whole entry is more than the kernel takes in one datagram.
 */
const CUT_BYTES = 16_384;

/**
 * A log that speaks journald's native protocol (systemd, JOURNAL_NATIVE_PROTOCOL): `PRIORITY`,
 * `MESSAGE`, `SYSLOG_IDENTIFIER` and every field in upper case (`bundleId` → `BUNDLE_ID`,
 * `messageId` → `MESSAGE_ID`). `err` becomes `ERROR`, `ERROR_CODE` and `ERROR_STACK`.
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
    // With control characters other than line ends in it, journalctl shows `[… blob data]` and no
    // text.
    ['MESSAGE', Buffer.from(plainLines(message))],
    ['PRIORITY', Buffer.from(String(SYSLOG_PRIORITY[level]))],
    ['SYSLOG_IDENTIFIER', Buffer.from('stickpin')],
    ...Object.entries(all).flatMap(([key, value]) => {
      const name = fieldName(key);
      return name === undefined || value === undefined ? [] : [[name, Buffer.from(textOf(value))] as const];
    }),
  ];
}

/**
 * systemd.journal-fields(7): upper case, digits and underscores, no underscore in front, at most
 * 64.
 */
function fieldName(key: string): string | undefined {
  const name = key
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toUpperCase()
    .replace(/[^A-Z0-9_]/g, '_')
    .replace(/^[_0-9]+/, '');
  return name === '' || name.length > 64 ? undefined : name;
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return plainLines(value);
  if (typeof value === 'object') return JSON.stringify(plainDocument(value));
  return String(value);
}

function sendEntry(sender: DatagramSender, entry: Entry): void {
  // A memory file would carry entries of any size, but a file descriptor can't be passed from here;
  // what is too long is cut.
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
