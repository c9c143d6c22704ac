import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';

/** Where a database is damaged: in its header, or in all pages after the first one. */
export type DamagedPart = 'header' | 'pages';

const GARBAGE = 0xa5;
const PAGE_BYTES = 4_096;

/**
 * Overwrites a part of the database at `path`, which other connections may have open: they lose
 * what they have in their caches, since it was changed before, and find the damage with their next
 * statement.
 */
export function damageDatabase(path: string, part: DamagedPart): void {
  const database = new Database(path);
  try {
    database.exec('CREATE TABLE stir (one INTEGER); DROP TABLE stir;');
    database.pragma('wal_checkpoint(TRUNCATE)');
    overwrite(path, part);
  } finally {
    database.close();
  }
}

function overwrite(path: string, part: DamagedPart): void {
  const file = openSync(path, 'r+');
  try {
    const [from, to] = part === 'header' ? [0, 100] : [PAGE_BYTES, fstatSync(file).size];
    writeSync(file, Buffer.alloc(to - from, GARBAGE), 0, to - from, from);
    const check = Buffer.alloc(1);
    readSync(file, check, 0, 1, from);
    if (check[0] !== GARBAGE) throw new Error(`${path} could not be damaged`);
  } finally {
    closeSync(file);
  }
}
