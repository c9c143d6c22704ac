import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { walDamage } from '../../../../src/store/database/wal.ts';

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
    for (let frame = 1; frame < frames - 1; frame += 1) {
      const at = HEADER_BYTES + frame * frameBytes;
      expect(damageOf(flipped(at + FRAME_HEADER_BYTES + 7, 6))).toBe(`it is damaged from byte ${at} on`);
    }
  });

  it('finds a damaged checksum, also the one before the last frame', () => {
    const at = log.length - 2 * frameBytes;
    for (const byte of [16, 20])
      expect(damageOf(flipped(at + byte)), `${byte}`).toBe(`it is damaged from byte ${at} on`);
  });

  it('ignores a last transaction that was not written as a whole, wherever the writer was killed', () => {
    const last = log.length - frameBytes;
    const kept = Buffer.from(log);
    for (const cut of [1, 8, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 8, frameBytes - 1]) {
      expect(damageOf(log.subarray(0, last + cut)), `${cut} bytes`).toBeUndefined();
      // Over what an earlier log had there.
      kept.fill(0x11, last + cut);
      log.copy(kept, last, last, last + cut);
      expect(damageOf(kept), `${cut} bytes over others`).toBeUndefined();
    }
  });

  it('finds a damaged frame within the last transaction when its end was written', () => {
    const path = join(folder, 'wide.db');
    const database = new Database(path);
    database.pragma('journal_mode = WAL');
    database.exec('CREATE TABLE bundle (name TEXT)');
    const frames = () => (readFileSync(`${path}-wal`).length - HEADER_BYTES) / frameBytes;
    const before = frames();
    database.prepare('INSERT INTO bundle VALUES (?)').run('x'.repeat(30_000));
    const bytes = readFileSync(`${path}-wal`);
    database.close();
    expect((bytes.length - HEADER_BYTES) / frameBytes - before).toBeGreaterThan(4);
    const at = HEADER_BYTES + before * frameBytes;
    bytes.writeUInt8(bytes.readUInt8(at + 100) ^ 1, at + 100);
    expect(damageOf(bytes)).toBe(`it is damaged from byte ${at} on`);
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
    const failed = readFileSync(join(folder, 'failed'));
    expect(failed.length).toBeGreaterThan(HEADER_BYTES + 20 * frameBytes);
    expect(walDamage(join(folder, 'failed'))).toBeUndefined();
    // Killed between the header and the page of the last frame of the small one.
    const ends = (at: number) => failed.readUInt32BE(at + 4) !== 0;
    const starts = Array.from({ length: 20 }, (_, frame) => HEADER_BYTES + frame * frameBytes);
    const last = starts.findLast(ends) ?? 0;
    failed.fill(0x11, last + FRAME_HEADER_BYTES, last + frameBytes);
    expect(damageOf(failed)).toBeUndefined();
  });
});
