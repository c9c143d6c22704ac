import type { Database } from 'better-sqlite3';
import type { ConditionMarks, ConditionStatus, ConditionType } from '../../../domain/model/condition.ts';
import type { BundleId } from '../../../domain/model/digest.ts';

export type StoredMarks = ReadonlyMap<BundleId, ConditionMarks>;

/** Call the writer within a transaction; it does not open one. */
export interface ConditionRows {
  load(): StoredMarks;
  /** Writes the marks that differ from `before`. */
  set(changed: StoredMarks, before: StoredMarks): void;
}

export function createConditionRows(database: Database): ConditionRows {
  const upsert = database.prepare(
    `INSERT INTO condition (bundle_id, type, status, since) VALUES (?, ?, ?, ?)
     ON CONFLICT (bundle_id, type) DO UPDATE SET status = excluded.status, since = excluded.since`,
  );
  const select = database.prepare<[], { bundle_id: string; type: string; status: string; since: number }>(
    'SELECT bundle_id, type, status, since FROM condition',
  );
  return {
    load: () => {
      const marks = new Map<BundleId, ConditionMarks>();
      for (const { bundle_id, type, status, since } of select.all()) {
        const bundleId = bundle_id as BundleId;
        const mark = { status: status as ConditionStatus, since };
        marks.set(bundleId, { ...marks.get(bundleId), [type as ConditionType]: mark });
      }
      return marks;
    },
    set: (changed, before) => {
      for (const [bundleId, marks] of changed) {
        for (const [type, mark] of Object.entries(marks)) {
          const was = before.get(bundleId)?.[type as ConditionType];
          if (was?.status !== mark.status || was.since !== mark.since) {
            upsert.run(bundleId, type, mark.status, mark.since);
          }
        }
      }
    },
  };
}
