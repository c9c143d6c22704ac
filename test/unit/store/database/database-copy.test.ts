import { mkdtempSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withDatabaseCopy } from '../../../../src/store/database/read-copy.ts';

const ROWS = 2_000;

describe('a copy of a database that is written', () => {
  let folder: string;
  let database: Database.Database;
  const path = () => join(folder, 'state.db');
  const fill = (text: string) =>
    database.transaction(() => {
      database.exec('DELETE FROM t');
      const insert = database.prepare('INSERT INTO t (id, text) VALUES (?, ?)');
      for (let id = 0; id < ROWS; id += 1) insert.run(id, text.repeat(id % 40));
    })();

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stickpin-copy-'));
    database = new Database(path());
    database.pragma('journal_mode = WAL');
    database.pragma('wal_autocheckpoint = 0');
    database.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT); CREATE INDEX i ON t (text)');
    fill('a');
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.exec("UPDATE t SET text = 'z' || id WHERE id % 50 = 0");
  });
  afterEach(() => {
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const lookAt = (writes: () => void) => {
    let copies = 0;
    return withDatabaseCopy(
      path(),
      new AbortController().signal,
      async (copy) => {
        const copied = new Database(copy);
        try {
          const rows = copied.prepare('SELECT count(*) FROM t').pluck().get();
          return { health: copied.pragma('integrity_check', { simple: true }), rows, copies };
        } finally {
          copied.close();
        }
      },
      async (from, to) => {
        await copyFile(from, to);
        copies += 1;
        if (copies === 1) writes();
      },
    );
  };

  it('is of one time, also when the log is written back between the two files', async () => {
    const found = await lookAt(() => {
      fill('bcd');
      database.pragma('wal_checkpoint(TRUNCATE)');
      fill('e');
      database.pragma('wal_checkpoint(TRUNCATE)');
    });
    expect(found).toEqual({ health: 'ok', rows: ROWS, copies: 4 });
  });

  it('is made once while nothing is written', async () => {
    expect(await lookAt(() => undefined)).toEqual({ health: 'ok', rows: ROWS, copies: 2 });
  });
});
