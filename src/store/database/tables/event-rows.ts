import type { Database } from 'better-sqlite3';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { EventRow } from '../../../ports/state.ts';

/** Call the writer within a transaction; it opens none. */
export interface EventRows {
  newest(): number;
  append(event: EventRow): number;
  list(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
}

interface HistoryRow {
  readonly at: number;
  readonly kind: string;
  readonly bundle_id: string | null;
  readonly medium: string | null;
  readonly message: string;
  readonly done_by: string | null;
}

export interface EventRetention {
  readonly keptEvents: number;
  readonly keptMs?: number | undefined;
}

/** These stay whatever their age: a clock that was set wrong must not remove the history. */
const ALWAYS_KEPT = 100;
/** Events are removed by age once for so many new ones. */
const PRUNE_EVERY = 64;

export function createEventRows(
  database: Database,
  { keptEvents, keptMs = Number.POSITIVE_INFINITY }: EventRetention,
): EventRows {
  const insert = database.prepare(
    'INSERT INTO event (at, kind, bundle_id, medium, message, done_by) VALUES (@at, @kind, @bundleId, @medium, @message, @by)',
  );
  const prune = database.prepare('DELETE FROM event WHERE event_id <= ?');
  const pruneByAge = database.prepare('DELETE FROM event WHERE event_id <= ? AND at < ?');
  let prunedAt = Number.NEGATIVE_INFINITY;
  const newest = database.prepare<[], number | null>('SELECT max(event_id) FROM event').pluck();
  const select = database.prepare<[string | null, string | null, number], HistoryRow>(
    `SELECT at, kind, bundle_id, medium, message, done_by FROM event
     WHERE ? IS NULL OR bundle_id = ? ORDER BY event_id DESC LIMIT ?`,
  );
  return {
    newest: () => newest.get() ?? 0,
    append: (event) => {
      const row = {
        ...event,
        bundleId: event.bundleId ?? null,
        medium: event.medium ?? null,
        by: event.by ?? 'daemon',
      };
      const eventId = Number(insert.run(row).lastInsertRowid);
      prune.run(eventId - keptEvents);
      if (Number.isFinite(keptMs) && eventId - prunedAt >= PRUNE_EVERY) {
        pruneByAge.run(eventId - ALWAYS_KEPT, event.at - keptMs);
        prunedAt = eventId;
      }
      return eventId;
    },
    list: (bundleId, limit) =>
      select
        .all(bundleId ?? null, bundleId ?? null, limit)
        .reverse()
        .map(eventOf),
  };
}

function eventOf(row: HistoryRow): EventRow {
  return {
    at: row.at,
    kind: row.kind,
    message: row.message,
    ...(row.bundle_id !== null && { bundleId: row.bundle_id as BundleId }),
    ...(row.medium !== null && { medium: row.medium }),
    ...(row.done_by !== null && { by: row.done_by }),
  };
}
