import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { walDamage } from '../../../../src/store/database/wal-damage.ts';

/** SQLite file format, "WAL-mode File Format". */
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

describe('walDamage', () => {
  let folder: string;
  let log: Buffer;
  let frameBytes: number;

  /** A log of several commits, as it is when its process was killed. */
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'stickpin-wal-'));
    const path = join(folder, 'state.db');
    const database = new Database(path);
    database.pragma('journal_mode = WAL');
    database.pragma('wal_autocheckpoint = 0');
    database.exec('CREATE TABLE bundle (name TEXT)');
    for (let count = 0; count < 5; count += 1) database.prepare('INSERT INTO bundle VALUES (?)').run(`bundle ${count}`);
    copyFileSync(`${path}-wal`, join(folder, 'whole'));
    database.close();
    log = readFileSync(join(folder, 'whole'));
    frameBytes = FRAME_HEADER_BYTES + log.readUInt32BE(8);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const damageOf = (bytes: Buffer) => {
    const path = join(folder, 'damaged');
    writeFileSync(path, bytes);
    return walDamage(path);
  };
  const flipped = (at: number, bit = 0) => {
    const bytes = Buffer.from(log);
    bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << bit), at);
    return bytes;
  };

  it('finds no damage in a complete log, an empty one and an absent one', () => {
    expect(damageOf(log)).toBeUndefined();
    expect(damageOf(Buffer.alloc(0))).toBeUndefined();
    expect(walDamage(join(folder, 'absent'))).toBeUndefined();
  });

  it('finds one flipped bit in each part of the first frame, and in each later frame', () => {
    const frames = Math.floor((log.length - HEADER_BYTES) / frameBytes);
    expect(frames).toBeGreaterThan(4);
    for (const at of [0, 4, 8, 12, 16, 20, FRAME_HEADER_BYTES, frameBytes - 1]) {
      expect(damageOf(flipped(HEADER_BYTES + at)), `byte ${at} of the first frame`).toMatch(
        /^it is damaged from byte 32/,
      );
    }
    for (let frame = 1; frame < frames; frame += 1) {
      const at = HEADER_BYTES + frame * frameBytes;
      expect(damageOf(flipped(at + FRAME_HEADER_BYTES + 7, 6))).toBe(`it is damaged from byte ${at} on`);
    }
  });

  it('finds a damaged header', () => {
    for (const at of [0, 8, 16, 24]) expect(damageOf(flipped(at, 3))).toBe('its header is damaged');
  });

  it('ignores what a transaction that failed has left behind the last commit', () => {
    const path = join(folder, 'failed.db');
    const database = new Database(path);
    database.pragma('journal_mode = WAL');
    database.pragma('cache_size = 10'); // so that pages are in the log before the end of a transaction
    database.exec('CREATE TABLE bundle (name TEXT)');
    const insert = database.prepare('INSERT INTO bundle VALUES (?)');
    const fail = database.transaction(() => {
      for (let count = 0; count < 100; count += 1) insert.run('x'.repeat(4_000));
      throw new Error('the disk is full');
    });
    expect(fail).toThrow('the disk is full');
    insert.run('small');
    copyFileSync(`${path}-wal`, join(folder, 'failed'));
    database.close();
    expect(readFileSync(join(folder, 'failed')).length).toBeGreaterThan(HEADER_BYTES + 20 * frameBytes);
    expect(walDamage(join(folder, 'failed'))).toBeUndefined();
  });
});
