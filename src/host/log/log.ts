import { fstatSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import type { Log, LogFields } from '../../platform/log.ts';
import { plainDocument, plainLines, plainText } from '../../platform/plain-text.ts';
import { errorFields } from './error-fields.ts';
import { createJournalLog } from './journal.ts';
import type { LogLevel } from './log-level.ts';

/** A log that can be closed. */
export interface ClosableLog extends Log {
  close(): void;
}

/** The options of {@link createLog}. */
export interface LogDeps {
  /** `JOURNAL_STREAM` is read from it, and `SYSTEMD_LOG_LEVEL` (systemd(1)): `debug` or nothing. */
  readonly env: NodeJS.ProcessEnv;
  /** Default `info`, or what the environment asks for. */
  readonly level?: LogLevel;
  /** Default journald's own. */
  readonly journalSocket?: string;
  /** Where JSON lines go when there is no journal. Default stdout. */
  readonly destination?: DestinationStream;
}

/**
 * The log of the program: the native journal when stdout or stderr is connected to it
 * (`JOURNAL_STREAM`, systemd.exec(5)), otherwise pino's JSON lines on stdout. Only one of the two
 * is loaded.
 */
export async function createLog(deps: LogDeps): Promise<ClosableLog> {
  const level = deps.level ?? (deps.env.SYSTEMD_LOG_LEVEL === 'debug' ? 'debug' : 'info');
  if (isJournal(deps.env.JOURNAL_STREAM)) {
    return createJournalLog({
      level,
      ...(deps.journalSocket === undefined ? {} : { socketPath: deps.journalSocket }),
    });
  }
  return createJsonLog(level, deps.destination);
}

/**
 * Compares `JOURNAL_STREAM` (`device:inode`) with stdout and stderr, because children inherit the
 * variable even if their output goes elsewhere.
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
  // In the packed program this CommonJS package has only a default export.
  const { default: pino } = await import('pino');
  const options = { level, base: null, formatters: { level: (label: string) => ({ level: label }) } };
  const logger = destination === undefined ? pino(options) : pino(options, destination);
  const at = (name: LogLevel) => (fields: LogFields, message: string) => {
    const { err, ...others } = fields;
    const all = { ...others, ...(err === undefined ? {} : errorFields(err)) };
    logger[name](Object.fromEntries(Object.entries(all).map(plainField)), plainText(message));
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    close: () => logger.flush(),
  };
}

/** Keeps line ends of stacks. */
function plainField([name, value]: readonly [string, unknown]): [string, unknown] {
  return [name, name === 'errorStack' ? plainLines(String(value)) : plainDocument(value)];
}
