import type { Database } from 'better-sqlite3';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { MediumId } from '../../../domain/model/medium.ts';

/**
 * The writers of the table of cancelled preloads; `loadBundles` reads it. Call them within a
 * transaction; they don't open one.
 */
export interface CancellationRows {
  /** Replaces the row of the bundle. @param at milliseconds since the epoch */
  set(bundleId: BundleId, at: number, media: readonly MediumId[]): void;
  remove(bundleId: BundleId): void;
}

/** Prepares the statements that write the table `cancellation`. */
export function createCancellationRows(database: Database): CancellationRows {
  const remove = database.prepare('DELETE FROM cancellation WHERE bundle_id = ?');
  const insert = database.prepare('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)');
  return {
    set: (bundleId, at, media) => {
      remove.run(bundleId);
      insert.run(bundleId, at, JSON.stringify(media));
    },
    remove: (bundleId) => void remove.run(bundleId),
  };
}
