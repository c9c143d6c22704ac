import type { Database } from 'better-sqlite3';
import type { TagGiven } from '../../../domain/state/memory.ts';

/** Call the writer within a transaction; it does not open one. */
export interface TagRows {
  /** Oldest first. */
  load(): readonly TagGiven[];
  /** Replaces all rows; there are few. */
  set(given: readonly TagGiven[]): void;
}

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
