import type { Database } from 'better-sqlite3';

/**
 * The table of references that stickpin pulled. Call the writer within a transaction; it does not
 * open one.
 */
export interface PulledImageRows {
  load(): ReadonlySet<string>;
  set(reference: string, isPulledByUs: boolean): void;
}

/** Prepares the statements over the table `brought_image`. */
export function createPulledImageRows(database: Database): PulledImageRows {
  const select = database.prepare<[], string>('SELECT reference FROM brought_image').pluck();
  const insert = database.prepare('INSERT INTO brought_image (reference) VALUES (?)');
  const remove = database.prepare('DELETE FROM brought_image WHERE reference = ?');
  return {
    load: () => new Set(select.all()),
    set: (reference, isPulledByUs) => void (isPulledByUs ? insert : remove).run(reference),
  };
}
