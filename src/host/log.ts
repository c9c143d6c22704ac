import { fstatSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import { knownShortCode } from '../domain/report/codes.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Log, LogFields } from '../platform/log.ts';
import { plainDocument, plainLines, plainText, withoutLogins } from '../platform/plain-text.ts';
import { createDatagramSender, type DatagramSender } from './unix-datagrams.ts';

/**
 * Texts of all causes, and the code. The stack only if it is not an {@link AppError}: that is a
 * bug.
 */
function errorFields(thrown: unknown): Readonly<Record<string, string>> {
  const fields: Record<string, string> = { error: textWithCauses(thrown) };
  if (thrown instanceof AppError) {
    fields.errorCode = thrown.code;
    fields.errorDisposition = thrown.disposition;
  } else if (thrown instanceof Error && thrown.stack !== undefined) {
    fields.errorStack = withoutLogins(thrown.stack);
  }
  return fields;
}

/** Skips a cause whose text is already part of an outer one. */
function textWithCauses(thrown: unknown): string {
  const texts: string[] = [];
  for (
    let next = thrown;
    next !== undefined && texts.length < 8;
    next = next instanceof Error ? next.cause : undefined
  ) {
    const text = reasonOf(next);
    if (!texts.some((earlier) => earlier.includes(text))) texts.push(text);
  }
  return texts.join(': ');
}

/** journald's native protocol. */
const JOURNAL_SOCKET = '/run/systemd/journal/socket';

export interface ClosableLog extends Log {
  close(): void;
}

/** The length of a value when the entry does not fit into one datagram. */
const CUT_BYTES = 16_384;

/**
 * journald's native protocol (systemd, JOURNAL_NATIVE_PROTOCOL): `PRIORITY`, `MESSAGE`,
 * `SYSLOG_IDENTIFIER` and every field in upper case (`bundleId` → `BUNDLE_ID`). `err` becomes
 * `ERROR`, `ERROR_CODE` and `ERROR_STACK`. `STICKPIN_CODE` is the short code of the reason.
 */
export async function createJournalLog(options: {
  readonly level: LogLevel;
  readonly socketPath?: string;
}): Promise<ClosableLog> {
  const sender = await createDatagramSender(options.socketPath ?? JOURNAL_SOCKET);
  const write = (level: LogLevel, fields: LogFields, message: string) => {
    if (isLogged(level, options.level)) sendEntry(sender, entryOf(level, fields, message));
  };
  return logOver(write, () => sender.close());
}

function logOver(write: (level: LogLevel, fields: LogFields, message: string) => void, close: () => void): ClosableLog {
  const at = (level: LogLevel) => (fields: LogFields, message: string) => write(level, fields, withoutLogins(message));
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), close };
}

type Entry = readonly (readonly [name: string, value: Buffer])[];

function entryOf(level: LogLevel, fields: LogFields, message: string): Entry {
  const { err, ...others } = fields;
  const all: Record<string, unknown> = { ...(err === undefined ? {} : errorFields(err)), ...others };
  const code = [all.code, all.errorCode].find((one) => typeof one === 'string');
  if (typeof code === 'string') all.stickpinCode = knownShortCode(code);
  return [
    // journalctl shows control characters as `[… blob data]`. A line end, as in the name of a
    // folder on a stick, would begin a line that looks like another message.
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
 * systemd.journal-fields(7): upper case, digits and underscores, no leading underscore, at most 64
 * characters.
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
  // journald also takes a memory file of any size, but Node.js can't pass a file descriptor.
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

type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** syslog(3) priorities, as `PRIORITY` in the journal. */
const SYSLOG_PRIORITY: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

function isLogged(level: LogLevel, threshold: LogLevel): boolean {
  return SYSLOG_PRIORITY[level] <= SYSLOG_PRIORITY[threshold];
}

interface LogOptions {
  /** `JOURNAL_STREAM` and `SYSTEMD_LOG_LEVEL` (systemd(1)) are read: `debug` or nothing. */
  readonly env: NodeJS.ProcessEnv;
  /** Default `info`, or that of the environment. */
  readonly level?: LogLevel;
  /** Default: the socket of journald. */
  readonly journalSocket?: string;
  /** JSON lines go there without a journal. Default stdout. */
  readonly destination?: DestinationStream;
}

/**
 * The native journal when stdout or stderr is connected to it (`JOURNAL_STREAM`, systemd.exec(5)),
 * else pino's JSON lines on stdout. Only one of the two is loaded.
 */
export async function createLog(options: LogOptions): Promise<ClosableLog> {
  const level = options.level ?? (options.env.SYSTEMD_LOG_LEVEL === 'debug' ? 'debug' : 'info');
  if (isJournal(options.env.JOURNAL_STREAM)) {
    return createJournalLog({
      level,
      ...(options.journalSocket === undefined ? {} : { socketPath: options.journalSocket }),
    });
  }
  return createJsonLog(level, options.destination);
}

/**
 * Compares `JOURNAL_STREAM` (`device:inode`) with stdout and stderr: children inherit the variable
 * even if their output goes elsewhere.
 */
function isJournal(stream: string | undefined): boolean {
  if (stream === undefined) return false;
  return [1, 2].some((fd) => {
    try {
      const { dev, ino } = fstatSync(fd);
      return `${dev}:${ino}` === stream;
    } catch {
      return false; // closed
    }
  });
}

async function createJsonLog(threshold: LogLevel, destination: DestinationStream | undefined): Promise<ClosableLog> {
  // The packed program has only a default export of this CommonJS package.
  const { default: pino } = await import('pino');
  const options = { level: threshold, base: null, formatters: { level: (label: string) => ({ level: label }) } };
  const logger = destination === undefined ? pino(options) : pino(options, destination);
  const write = (level: LogLevel, fields: LogFields, message: string) => {
    const { err, ...others } = fields;
    const all = { ...others, ...(err === undefined ? {} : errorFields(err)) };
    logger[level](Object.fromEntries(Object.entries(all).map(plainField)), plainText(message));
  };
  return logOver(write, () => logger.flush());
}

/** Keeps line ends of stacks. */
function plainField([name, value]: readonly [string, unknown]): [string, unknown] {
  return [name, name === 'errorStack' ? plainLines(String(value)) : plainDocument(value)];
}
