import { fstatSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import type { Log, LogFields } from '../../platform/log.ts';
import { plainDocument, plainLines } from '../../platform/plain-text.ts';
import { errorFields } from './error-fields.ts';
import { createJournalLog } from './journal.ts';
import type { LogLevel } from './log-level.ts';

/** A log that is closed at the end. */
export interface ClosableLog extends Log {
  close(): void;
}

/** What {@link createLog} needs. */
export interface LogDeps {
  /** `JOURNAL_STREAM` is read from it. */
  readonly env: NodeJS.ProcessEnv;
  /** Default `info`. */
  readonly level?: LogLevel;
  /** Default journald's own. */
  readonly journalSocket?: string;
  /** Where JSON lines go without a journal; default stdout. */
  readonly destination?: DestinationStream;
}

/**
 * The log of the program: the native journal when stdout or stderr is connected to it
 * (`JOURNAL_STREAM`, systemd.exec(5)), otherwise pino's JSON lines on stdout. Only one of the two
 * is loaded.
 */
export async function createLog(deps: LogDeps): Promise<ClosableLog> {
  const level = deps.level ?? 'info';
  if (isJournal(deps.env.JOURNAL_STREAM)) {
    return createJournalLog({
      level,
      ...(deps.journalSocket === undefined ? {} : { socketPath: deps.journalSocket }),
    });
  }
  return createJsonLog(level, deps.destination);
}

/**
 * `JOURNAL_STREAM` is `device:inode` and is inherited by children whose output goes elsewhere, so
 * it has to be compared.
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

async function createJsonLog(level: LogLevel, destination: DestinationStream | undefined): Promise<ClosableLog> {
  // The default export: a bundle of this CommonJS package has no other.
  const { default: pino } = await import('pino');
  const options = { level, base: null, formatters: { level: (label: string) => ({ level: label }) } };
  const logger = destination === undefined ? pino(options) : pino(options, destination);
  const at = (name: LogLevel) => (fields: LogFields, message: string) => {
    const { err, ...others } = fields;
    const all = { ...others, ...(err === undefined ? {} : errorFields(err)) };
    logger[name](Object.fromEntries(Object.entries(all).map(plainField)), plainLines(message));
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    close: () => logger.flush(),
  };
}

/** Texts of several lines, as stacks, keep their line ends. */
function plainField([name, value]: readonly [string, unknown]): [string, unknown] {
  return [name, typeof value === 'string' ? plainLines(value) : plainDocument(value)];
}
