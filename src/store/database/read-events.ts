import type { BundleId } from '../../domain/model/digest.ts';
import type { EventRow } from '../../ports/state.ts';
import { openDatabase } from './database.ts';
import { createEventRows } from './tables/event-rows.ts';

/**
 * The newest events of the database at `path`, oldest first; of all bundles without `bundleId`. It
 * may migrate the database, so that `path` must be a copy.
 *
 * @throws as `openDatabase`
 */
export function readEvents(path: string, bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
  const database = openDatabase(path);
  try {
    return createEventRows(database, Number.MAX_SAFE_INTEGER).list(bundleId, limit);
  } finally {
    database.close();
  }
}
