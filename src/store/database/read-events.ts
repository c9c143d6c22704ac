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
    return createEventRows(database, { keptEvents: Number.MAX_SAFE_INTEGER }).list(bundleId, limit);
  } finally {
    database.close();
  }
}

/**
 * What is wrong with the database at `path`, by SQLite's own check. Undefined when it is whole. As
 * {@link readEvents}, `path` must be a copy.
 *
 * @throws as `openDatabase`
 */
export function damageIn(path: string): string | undefined {
  const database = openDatabase(path);
  try {
    const found = String(database.pragma('quick_check(1)', { simple: true }));
    return found === 'ok' ? undefined : found;
  } finally {
    database.close();
  }
}
