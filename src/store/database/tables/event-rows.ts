import type { Database, Statement } from 'better-sqlite3';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { EventRow } from '../../../ports/state.ts';

interface HistoryRow {
  readonly at: number;
  readonly kind: string;
  readonly bundle_id: string | null;
  readonly medium: string | null;
  readonly message: string;
  readonly done_by: string;
}

export interface EventRetention {
  readonly keptEvents: number;
  readonly keptMs?: number | undefined;
}

/** These stay whatever their age: a clock that was set wrong must not remove the history. */
const ALWAYS_KEPT = 100;
/** Events are removed by age once for so many new ones. */
const PRUNE_EVERY = 64;

export class EventRows {
  private readonly insert: Statement;
  private readonly prune: Statement;
  private readonly pruneByAge: Statement;
  private readonly select: Statement<[string | null, string | null, number], HistoryRow>;
  private prunedAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly database: Database,
    private readonly retention: EventRetention,
  ) {
    this.insert = database.prepare(
      'INSERT INTO event (at, kind, bundle_id, medium, message, done_by) VALUES (@at, @kind, @bundleId, @medium, @message, @by)',
    );
    this.prune = database.prepare('DELETE FROM event WHERE event_id <= ?');
    this.pruneByAge = database.prepare('DELETE FROM event WHERE event_id <= ? AND at < ?');
    this.select = database.prepare(
      `SELECT at, kind, bundle_id, medium, message, done_by FROM event
       WHERE ? IS NULL OR bundle_id = ? ORDER BY event_id DESC LIMIT ?`,
    );
  }

  newest(): number {
    return this.database.prepare<[], number | null>('SELECT max(event_id) FROM event').pluck().get() ?? 0;
  }

  /** Call it within a transaction; it opens none. Returns the number of the event. */
  append(event: EventRow): number {
    const { keptEvents, keptMs = Number.POSITIVE_INFINITY } = this.retention;
    const row = { ...event, bundleId: event.bundleId ?? null, medium: event.medium ?? null, by: event.by ?? 'daemon' };
    const eventId = Number(this.insert.run(row).lastInsertRowid);
    this.prune.run(eventId - keptEvents);
    if (Number.isFinite(keptMs) && eventId - this.prunedAt >= PRUNE_EVERY) {
      this.pruneByAge.run(eventId - ALWAYS_KEPT, event.at - keptMs);
      this.prunedAt = eventId;
    }
    return eventId;
  }

  /** Oldest first. */
  list(bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
    const rows = this.select.all(bundleId ?? null, bundleId ?? null, limit);
    return rows.reverse().map(eventOf);
  }
}

function eventOf(row: HistoryRow): EventRow {
  return {
    at: row.at,
    kind: row.kind,
    message: row.message,
    ...(row.bundle_id !== null && { bundleId: row.bundle_id as BundleId }),
    ...(row.medium !== null && { medium: row.medium }),
    by: row.done_by,
  };
}
