import { fstatSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ClosableLog, createJournalLog, createLog } from '../../../src/host/log.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../support/bus/datagram-receiver.ts';
import { eventually } from '../../support/eventually.ts';

/** Reads an entry of the native protocol back. */
function decode(datagram: Buffer): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let at = 0; at < datagram.length; ) {
    const end = datagram.indexOf(0x0a, at);
    const line = datagram.subarray(at, end).toString();
    const equals = line.indexOf('=');
    if (equals >= 0) {
      fields[line.slice(0, equals)] = line.slice(equals + 1);
      at = end + 1;
    } else {
      const size = Number(datagram.readBigUInt64LE(end + 1));
      fields[line] = datagram.subarray(end + 9, end + 9 + size).toString();
      at = end + 9 + size + 1;
    }
  }
  return fields;
}

describe('journal log', () => {
  let journald: DatagramReceiver;
  let log: ClosableLog;
  const entries = (): Record<string, string>[] => journald.received.map(decode);

  beforeEach(async () => {
    journald = createDatagramReceiver();
    log = await createJournalLog({ level: 'info', socketPath: journald.path });
  });
  afterEach(() => {
    log.close();
    journald[Symbol.dispose]();
  });

  it('writes messages that journalctl shows as text, for any text from a medium', async () => {
    log.warn({}, 'Rejected stickpin/e\u001b[31mvil: not JSON\n{\u0007}');
    await eventually(() => expect(entries()[0]?.MESSAGE).toBe('Rejected stickpin/e [31mvil: not JSON { }'));
  });

  it('writes no login of an address, wherever it stands', async () => {
    const address = 'http://bob:hu/sh@x@proxy.example.com:3128/a';
    const message = `Proxy ${address} is broken`;
    const err = new Error(`Invalid proxy URL: ${address}`, { cause: new Error(address) });
    log.warn({ err }, message);
    await eventually(() =>
      expect(entries()[0]?.MESSAGE).toBe('Proxy http://<removed>@proxy.example.com:3128/a is broken'),
    );
    expect(JSON.stringify(entries())).not.toMatch(/bob|hu\/|sh@x/);
  });

  it('writes message, priority, identifier and fields', async () => {
    const fields = {
      bundleId: 'sha256:aa',
      medium: 'sdb1',
      digest: 'sha256:bb',
      messageId: 'f'.repeat(32),
      totalBytes: 7,
      none: undefined,
    };
    log.warn(fields, 'Blob damaged');
    await eventually(() =>
      expect(entries()).toEqual([
        {
          MESSAGE: 'Blob damaged',
          PRIORITY: '4',
          SYSLOG_IDENTIFIER: 'stickpin',
          BUNDLE_ID: 'sha256:aa',
          MEDIUM: 'sdb1',
          DIGEST: 'sha256:bb',
          MESSAGE_ID: 'f'.repeat(32),
          TOTAL_BYTES: '7',
        },
      ]),
    );
  });

  it('writes no format characters and no other separators of lines', async () => {
    log.info({ medium: 'a\u202eb', reason: { text: 'c\u2028d' } }, 'e\u200bf\u2029g');
    await eventually(() =>
      expect(entries()[0]).toMatchObject({ MESSAGE: 'ef g', MEDIUM: 'ab', REASON: '{"text":"c d"}' }),
    );
  });

  it('writes a value of many lines in binary form, so that it cannot forge a field', async () => {
    log.info({ note: 'a\nPRIORITY=0\nb' }, 'first\nsecond');
    await eventually(() =>
      expect(entries()[0]).toMatchObject({ MESSAGE: 'first second', NOTE: 'a PRIORITY=0 b', PRIORITY: '6' }),
    );
  });

  it('writes only field names that the journal accepts', async () => {
    log.info({ _trusted: 'x', 'a.b-c': 'y', [`k${'k'.repeat(64)}`]: 'z' }, 'names');
    await eventually(() => expect(entries()).toHaveLength(1));
    expect(Object.keys(entries()[0] ?? {})).toEqual(['MESSAGE', 'PRIORITY', 'SYSLOG_IDENTIFIER', 'TRUSTED', 'A_B_C']);
  });

  it('logs an error with its causes, and a stack only for a bug', async () => {
    const cause = new Error('EIO');
    log.error({ err: new AppError({ code: 'media/read', message: 'sdb1 failed', disposition: 'retry', cause }) }, 'x');
    log.error({ err: new TypeError('bug') }, 'y');
    await eventually(() => expect(entries()).toHaveLength(2));
    expect(entries()[0]).toMatchObject({
      ERROR: 'sdb1 failed: EIO',
      ERROR_CODE: 'media/read',
      ERROR_DISPOSITION: 'retry',
    });
    expect(entries()[0]).not.toHaveProperty('ERROR_STACK');
    expect(entries()[1]?.ERROR_STACK).toContain('TypeError: bug\n    at ');
  });

  it('cuts what is more than one datagram holds', async () => {
    log.info({ medium: 'sdb1', detail: 'x'.repeat(1_000_000) }, 'big');
    await eventually(() => expect(entries()).toHaveLength(1));
    expect(entries()[0]).toMatchObject({
      MESSAGE: 'big',
      MEDIUM: 'sdb1',
      DETAIL: expect.stringMatching(/^x{16384} … \(1000000 bytes\)$/),
    });
  });

  it('loses nothing in a burst that the receiver cannot take at once', async () => {
    for (let index = 0; index < 300; index += 1) log.info({}, `line ${index}`);
    await eventually(() =>
      expect(entries().map((entry) => entry.MESSAGE)).toEqual(
        Array.from({ length: 300 }, (_none, index) => `line ${index}`),
      ),
    );
  });

  it('leaves out what is below its level', async () => {
    log.debug({}, 'hidden');
    log.info({}, 'shown');
    await eventually(() => expect(entries().map((entry) => entry.MESSAGE)).toEqual(['shown']));
  });

  it('has them when the environment asks for them', async () => {
    const { dev, ino } = fstatSync(1);
    const env = { JOURNAL_STREAM: `${dev}:${ino}`, SYSTEMD_LOG_LEVEL: 'debug' };
    const asked = await createLog({ env, journalSocket: journald.path });
    asked.debug({}, 'a line for each image');
    asked.close();
    await eventually(() =>
      expect(entries().map((entry) => [entry.MESSAGE, entry.PRIORITY])).toEqual([['a line for each image', '7']]),
    );
  });

  it('is chosen when an output of the process is the journal, and JSON otherwise', async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const { dev, ino } = fstatSync(1);
    const inJournal = await createLog({
      env: { JOURNAL_STREAM: `${dev}:${ino}` },
      journalSocket: journald.path,
      destination,
    });
    inJournal.info({}, 'to the journal');
    inJournal.close();
    const elsewhere = await createLog({ env: { JOURNAL_STREAM: '1:1' }, journalSocket: journald.path, destination });
    elsewhere.info(
      { medium: 'sdb1', err: new AppError({ code: 'a/b', message: 'why', disposition: 'wait' }) },
      'to stdout',
    );
    await eventually(() => expect(entries().map((entry) => entry.MESSAGE)).toEqual(['to the journal']));
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        level: 'info',
        time: expect.any(Number),
        medium: 'sdb1',
        error: 'why',
        errorCode: 'a/b',
        errorDisposition: 'wait',
        msg: 'to stdout',
      },
    ]);
  });
});
