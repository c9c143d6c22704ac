import type { Database } from 'better-sqlite3';

/** The table of images that stickpin brought, by reference. Its writer needs a transaction. */
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
