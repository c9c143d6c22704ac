import type { Database } from 'better-sqlite3';
import type { TagGiven } from '../../../domain/state/memory.ts';

/**
 * The table of tags that were given again. Its writer is to be called within a transaction, which
 * it does not open.
 */
export interface TagRows {
  /** Oldest first. */
  load(): readonly TagGiven[];
  /** Replaces all of them: they are few. */
  set(given: readonly TagGiven[]): void;
}

/** Prepares the statements over the table `tag_given`. */
export function createTagRows(database: Database): TagRows {
  const select = database.prepare<[], TagGiven>('SELECT tag, at FROM tag_given ORDER BY rowid');
  const clear = database.prepare('DELETE FROM tag_given');
  const insert = database.prepare('INSERT INTO tag_given (tag, at) VALUES (?, ?)');
  return {
    load: () => select.all(),
    set: (given) => {
      clear.run();
      for (const { tag, at } of given) insert.run(tag, at);
    },
  };
}
