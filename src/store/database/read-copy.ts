import { parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type { Contents } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Stored } from '../../domain/state/state.ts';
import { EMPTY_RECORD, type RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { AppError } from '../../platform/app-error.ts';
import type { EventRow } from '../../ports/state.ts';
import { openDatabase } from './database.ts';
import { readDocument } from './documents.ts';
import { tableWithWrongSum } from './row-sums.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';
import { EventRows } from './tables/event-rows.ts';
import { TrustRows } from './tables/trust-rows.ts';

/** Oldest first. `path` must be a copy. @throws as `openDatabase` */
export function readEvents(path: string, bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
  const database = openDatabase(path);
  try {
    return new EventRows(database, { keptEvents: Number.MAX_SAFE_INTEGER }).list(bundleId, limit);
  } finally {
    database.close();
  }
}

/** As {@link readEvents}. @throws AppError `store/row` (`fatal`) for a damaged row */
export function readRecords(path: string, revive: BundleReviver): Required<Pick<Stored, 'bundles' | 'rejectedNames'>> {
  const database = openDatabase(path);
  try {
    const table = tableWithWrongSum(database);
    if (table !== undefined) {
      throw new AppError({
        code: 'store/row',
        message: `the table "${table}" is damaged`,
        disposition: 'fatal',
      });
    }
    return { bundles: loadBundles(database, revive), rejectedNames: new TrustRows(database).load().rejectedNames };
  } finally {
    database.close();
  }
}

/** What `doctor` compares with the node. */
export interface KeptRecords {
  /** References of all pinned images. */
  readonly references: readonly string[];
  /** @throws AppError `bundle/revocation-record` (`wait`) */
  revocations(): RevocationRecord;
}

/** As {@link readEvents}. */
export function readKeptRecords(path: string): KeptRecords {
  const database = openDatabase(path);
  try {
    const contents = database
      .prepare<[], string>('SELECT contents FROM bundle JOIN bundle_content USING (bundle_id) WHERE retired_at IS NULL')
      .pluck()
      .all();
    const images = contents.flatMap((text) => (JSON.parse(text) as Contents).images);
    const record = readDocument(database, 'revocations');
    return {
      references: images.filter(({ pin }) => pin).map(({ reference }) => reference),
      revocations: () => (record === undefined ? EMPTY_RECORD : parseRevocationRecord(record, path)),
    };
  } finally {
    database.close();
  }
}

/** As {@link readEvents}: the fault by SQLite's own check, undefined when there is none. */
export function damageIn(path: string): string | undefined {
  const database = openDatabase(path);
  try {
    const found = String(database.pragma('quick_check(1)', { simple: true }));
    return found === 'ok' ? undefined : found;
  } finally {
    database.close();
  }
}
