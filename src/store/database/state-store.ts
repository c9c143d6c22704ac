import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import { formatRevocationRecord, parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/rule-code.ts';
import type { BadBlob } from '../../domain/state/bad-blob.ts';
import type { Soak } from '../../domain/state/soak-record.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { NO_ROTATION } from '../../domain/trust/key-rotation.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { EventRow, FloorRecordStore, RevocationStore, StateStore } from '../../ports/state.ts';
import { createDiskWatch } from '../files/disk-watch.ts';
import { databaseWriteError } from '../files/write-error.ts';
import { createConditionRows } from './condition-rows.ts';
import { createTagRows } from './tag-rows.ts';
import { createTrustRows } from './trust-rows.ts';
import { createWalSync, syncLog } from './wal-sync.ts';

interface BundleRow {
  readonly bundle_id: string;
  readonly payload: string;
  readonly contents: string;
  readonly signed_by: string;
  readonly signer_key_ids: string | null;
  readonly adopted_at: number;
  readonly claimed_at: number | null;
  readonly ready_at: number | null;
  readonly activation_requested_at: number | null;
  readonly activation_overrides: string | null;
  readonly activated_at: number | null;
  readonly active_at: number | null;
  readonly proven_at: number | null;
  readonly retired_at: number | null;
  readonly remove_images: number | null;
  readonly rolled_back_at: number | null;
  readonly rolled_back_reason: string | null;
  readonly soak: string | null;
  readonly bad_blobs: string | null;
  readonly cancelled_at: number | null;
  readonly cancelled_media: string | null;
}

interface HistoryRow {
  readonly at: number;
  readonly kind: string;
  readonly bundle_id: string | null;
  readonly medium: string | null;
  readonly message: string;
}

/** Reads the JSON of a bundle row back into its type. Supplied by the bundle room, since the schema is its business. */
export type BundleReviver = (row: {
  readonly payload: string;
  readonly contents: string;
}) => Pick<VerifiedBundle, 'payload' | 'contents'>;

/** What {@link createStateStore} may be given. */
export interface StateStoreOptions {
  /** Lines of the history that stay; default 20,000. */
  readonly keptEvents?: number;
  /** Has the write-ahead log written to the disk. */
  readonly sync?: () => Promise<void>;
  /** Thrown by every change, in place of making it: the database is a copy that stands in for the real one. */
  readonly refusal?: AppError;
}

const names = v.array(v.string());
const overrides = v.array(v.picklist(RULE_CODES));

/** Lines of the history that are kept: a fault that lasts adds one for each image every few minutes. */
const KEPT_EVENTS = 20_000;

/**
 * The state in SQLite. Every change and its line of history are one transaction.
 *
 * Bundles are kept in memory beside the database, so that a round costs no query; a change replaces the value.
 *
 * @throws AppError `store/row` (`fatal`) when what was stored can't be read back; every change throws `store/write`, `store/no-space` or
 * `store/read-only` (`retry`), and changes nothing. What
 * is committed and does not get to the disk is in force all the same, and `settled()` throws the same until it does.
 */
export function createStateStore(
  database: Database,
  revive: BundleReviver,
  { keptEvents = KEPT_EVENTS, sync = () => syncLog(database), refusal }: StateStoreOptions = {},
): StateStore & RevocationStore & FloorRecordStore {
  const insertEvent = database.prepare(
    'INSERT INTO event (at, kind, bundle_id, medium, message) VALUES (@at, @kind, @bundleId, @medium, @message)',
  );
  const pruneEvents = database.prepare('DELETE FROM event WHERE event_id <= ?');
  const insertBundle = database.prepare(
    `INSERT INTO bundle (bundle_id, name, version, sequence, payload, contents, signed_by, signer_key_ids, adopted_at, claimed_at)
     VALUES (@bundleId, @name, @version, @sequence, @payload, @contents, @signedBy, @signerKeyIds, @adoptedAt, @claimedAt)
     ON CONFLICT (bundle_id) DO NOTHING`,
  );
  const selectEvents = database.prepare<[string | null, string | null, number], HistoryRow>(
    `SELECT at, kind, bundle_id, medium, message FROM event
     WHERE ? IS NULL OR bundle_id = ? ORDER BY event_id DESC LIMIT ?`,
  );
  const updateRequest = database.prepare(
    'UPDATE bundle SET activation_requested_at = ?, activation_overrides = ? WHERE bundle_id = ?',
  );
  const marks = {
    readyAt: database.prepare('UPDATE bundle SET ready_at = ? WHERE bundle_id = ?'),
    activationRequestedAt: database.prepare('UPDATE bundle SET activation_requested_at = ? WHERE bundle_id = ?'),
    activatedAt: database.prepare('UPDATE bundle SET activated_at = ? WHERE bundle_id = ?'),
    activeAt: database.prepare('UPDATE bundle SET active_at = ? WHERE bundle_id = ?'),
    provenAt: database.prepare('UPDATE bundle SET proven_at = ? WHERE bundle_id = ?'),
  };
  const updateSoak = database.prepare('UPDATE bundle SET soak = ? WHERE bundle_id = ?');
  const updateRetired = database.prepare('UPDATE bundle SET retired_at = ?, remove_images = ? WHERE bundle_id = ?');
  const updateRolledBack = database.prepare(
    'UPDATE bundle SET rolled_back_at = ?, rolled_back_reason = ? WHERE bundle_id = ?',
  );
  const updateBadBlobs = database.prepare('UPDATE bundle SET bad_blobs = ? WHERE bundle_id = ?');
  const insertBrought = database.prepare('INSERT INTO brought_image (reference) VALUES (?)');
  const deleteBrought = database.prepare('DELETE FROM brought_image WHERE reference = ?');
  const selectFloors = database.prepare<[], string>('SELECT document FROM floor_record').pluck();
  const upsertFloors = database.prepare(
    'INSERT INTO floor_record (id, document) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document',
  );
  const deleteCancellation = database.prepare('DELETE FROM cancellation WHERE bundle_id = ?');
  const insertCancellation = database.prepare('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)');
  let bundles = loadBundles(database, revive);
  let pulledByUs: ReadonlySet<string> = new Set(
    database.prepare<[], string>('SELECT reference FROM brought_image').pluck().all(),
  );
  const change = (bundleId: BundleId, fields: Partial<StoredBundle>) => {
    bundles = bundles.map((bundle) => (bundle.bundleId === bundleId ? { ...bundle, ...fields } : bundle));
  };
  const updateSigners = database.prepare('UPDATE bundle SET signed_by = ?, signer_key_ids = ? WHERE bundle_id = ?');
  const trustRows = createTrustRows(database);
  let trust = trustRows.load();
  const conditionRows = createConditionRows(database);
  let conditions = conditionRows.load();
  const tagRows = createTagRows(database);
  let tagsGiven = tagRows.load();

  const updateOrigin = database.prepare('UPDATE origin SET id = lower(hex(randomblob(16)))');
  let origin = originOf(database);
  let revision = newestEvent(database);
  let appended = revision;

  const append = (event: EventRow) => {
    const row = { ...event, bundleId: event.bundleId ?? null, medium: event.medium ?? null };
    appended = Number(insertEvent.run(row).lastInsertRowid);
    pruneEvents.run(appended - keptEvents);
  };
  const walSync = createWalSync(sync);
  const disk = createDiskWatch(dirname(database.name));
  /** One transaction; what it throws names the file. */
  const write = (work: () => void): void => {
    if (refusal !== undefined) throw refusal;
    try {
      database.transaction(work)();
    } catch (error) {
      throw disk.failed(databaseWriteError(database.name, error));
    }
    revision = appended;
    walSync.committed();
  };
  /** As {@link write}, for what must not be in the log alone: a damaged log is lost without a word. */
  const writeThrough = (work: () => void): void => {
    write(work);
    try {
      database.pragma('wal_checkpoint(TRUNCATE)');
    } catch {
      // It is committed; the next one takes it along, and a disk that takes no writes is told by them.
    }
  };
  return {
    load: () => ({ bundles, pulledByUs, ...trust, age: { origin, revision } }),
    settled: async () => {
      try {
        await walSync.settled();
      } catch (error) {
        throw disk.failed(databaseWriteError(database.name, error));
      }
    },
    trouble: () => (refusal === undefined ? disk.trouble() : { code: refusal.code, message: refusal.message }),
    append: (event) => write(() => append(event)),
    conditions: () => conditions,
    setConditions: (changed) => {
      write(() => conditionRows.set(changed, conditions));
      conditions = new Map([...conditions, ...changed]);
    },
    tagsGiven: () => tagsGiven,
    setTagsGiven: (given) => {
      write(() => tagRows.set(given));
      tagsGiven = given;
    },
    adopt: (bundle, event, rotation = NO_ROTATION, isClaim = false) => {
      if (bundles.some((known) => known.bundleId === bundle.bundleId)) return;
      writeThrough(() => {
        insertBundle.run({ ...columnsOf(bundle, event.at), claimedAt: isClaim ? event.at : null });
        trustRows.addRotation(rotation, event.at);
        append(event);
      });
      bundles = [...bundles, { ...bundle, adoptedAt: event.at, ...(isClaim && { claimedAt: event.at }) }];
      trust = trustRows.load();
    },
    setSigners: (bundleId, { signedBy, signerKeyIds }, event) => {
      writeThrough(() => {
        updateSigners.run(JSON.stringify(signedBy), JSON.stringify(signerKeyIds), bundleId);
        append(event);
      });
      bundles = bundles.map((bundle) =>
        bundle.bundleId === bundleId ? { ...bundle, signedBy, signerKeyIds } : bundle,
      );
    },
    setVerdict: (verdict, event) => {
      writeThrough(() => {
        trustRows.setVerdict(verdict);
        append(event);
      });
      trust = trustRows.load();
    },
    renewOrigin: () => {
      write(() => void updateOrigin.run());
      origin = originOf(database);
    },
    floorRecord: () => selectFloors.get(),
    setFloorRecord: (document) => writeThrough(() => void upsertFloors.run(document)),
    revocationRecord: () => {
      const text = trustRows.revocationRecord();
      return text === undefined ? undefined : parseRevocationRecord(text, database.name);
    },
    setRevocationRecord: (record, event) =>
      write(() => {
        trustRows.setRevocationRecord(formatRevocationRecord(record));
        if (event !== undefined) append(event);
      }),
    mark: (bundleId, what, event) => {
      writeThrough(() => {
        marks[what].run(event.at, bundleId);
        append(event);
      });
      change(bundleId, { [what]: event.at });
    },
    requestActivation: (bundleId, overrides, event) => {
      write(() => {
        updateRequest.run(event.at, JSON.stringify(overrides), bundleId);
        append(event);
      });
      change(bundleId, { activationRequestedAt: event.at, activationOverrides: overrides });
    },
    setSoak: (bundleId, soak) => {
      write(() => updateSoak.run(JSON.stringify(soak), bundleId));
      change(bundleId, { soak });
    },
    setBadBlobs: (bundleId, badBlobs) => {
      write(() => updateBadBlobs.run(badBlobs.length === 0 ? null : JSON.stringify(badBlobs), bundleId));
      change(bundleId, { badBlobs });
    },
    retire: (bundleId, removeImages, event) => {
      writeThrough(() => {
        updateRetired.run(event.at, Number(removeImages), bundleId);
        append(event);
      });
      change(bundleId, { retiredAt: event.at, removeImages });
    },
    rollBack: (bundleId, event, next) => {
      writeThrough(() => {
        updateRolledBack.run(event.at, event.message, bundleId);
        append(event);
        marks.activationRequestedAt.run(next.event.at, next.bundleId);
        append(next.event);
      });
      change(bundleId, { rolledBackAt: event.at, rolledBackReason: event.message });
      change(next.bundleId, { activationRequestedAt: next.event.at });
    },
    setPulledByUs: (reference, isPulledByUs) => {
      if (pulledByUs.has(reference) === isPulledByUs) return;
      write(() => (isPulledByUs ? insertBrought : deleteBrought).run(reference));
      const others = [...pulledByUs].filter((other) => other !== reference);
      pulledByUs = new Set(isPulledByUs ? [...others, reference] : others);
    },
    cancel: (bundleIds, media, event) => {
      write(() => {
        for (const bundleId of bundleIds) {
          deleteCancellation.run(bundleId);
          if (media !== undefined) insertCancellation.run(bundleId, event.at, JSON.stringify(media));
        }
        append(event);
      });
      bundles = bundles.map((bundle) => {
        if (!bundleIds.includes(bundle.bundleId)) return bundle;
        const { cancelled: _, ...others } = bundle;
        return media === undefined ? others : { ...others, cancelled: { at: event.at, media } };
      });
    },
    events: (bundleId, limit) =>
      selectEvents
        .all(bundleId ?? null, bundleId ?? null, limit)
        .reverse()
        .map((row) => ({
          at: row.at,
          kind: row.kind,
          message: row.message,
          ...(row.bundle_id !== null && { bundleId: row.bundle_id as BundleId }),
          ...(row.medium !== null && { medium: row.medium }),
        })),
  };
}

function originOf(database: Database): string {
  return database.prepare<[], string>('SELECT id FROM origin').pluck().get() ?? '';
}

function newestEvent(database: Database): number {
  return Number(database.prepare('SELECT max(event_id) FROM event').pluck().get() ?? 0);
}

function columnsOf(bundle: VerifiedBundle, adoptedAt: number): Record<string, string | number | null> {
  const { name, version, sequence } = bundle.payload;
  return {
    bundleId: bundle.bundleId,
    name,
    version,
    sequence,
    payload: JSON.stringify(bundle.payload),
    contents: JSON.stringify(bundle.contents),
    signedBy: JSON.stringify(bundle.signedBy),
    signerKeyIds: bundle.signerKeyIds === undefined ? null : JSON.stringify(bundle.signerKeyIds),
    adoptedAt,
  };
}

function lifeOf(row: BundleRow): Partial<StoredBundle> {
  return {
    ...(row.active_at !== null && { activeAt: row.active_at }),
    ...(row.proven_at !== null && { provenAt: row.proven_at }),
    ...(row.retired_at !== null && { retiredAt: row.retired_at }),
    ...(row.remove_images !== null && { removeImages: row.remove_images !== 0 }),
    ...(row.rolled_back_at !== null && { rolledBackAt: row.rolled_back_at }),
    ...(row.rolled_back_reason !== null && { rolledBackReason: row.rolled_back_reason }),
    ...(row.soak !== null && { soak: JSON.parse(row.soak) as Soak }),
    ...(row.bad_blobs !== null && { badBlobs: JSON.parse(row.bad_blobs) as readonly BadBlob[] }),
  };
}

/** The bundles of a database, in the order of adoption. @throws AppError `store/row` (`fatal`) */
export function loadBundles(database: Database, revive: BundleReviver): readonly StoredBundle[] {
  const rows = database
    .prepare<[], BundleRow>(
      `SELECT bundle.*, cancellation.at AS cancelled_at, cancellation.media AS cancelled_media
       FROM bundle LEFT JOIN cancellation USING (bundle_id) ORDER BY adopted_at, bundle.rowid`,
    )
    .all();
  return rows.map((row) => {
    try {
      return {
        bundleId: row.bundle_id as BundleId,
        ...revive(row),
        signedBy: v.parse(names, JSON.parse(row.signed_by)),
        ...(row.signer_key_ids !== null && { signerKeyIds: v.parse(names, JSON.parse(row.signer_key_ids)) }),
        adoptedAt: row.adopted_at,
        ...(row.claimed_at !== null && { claimedAt: row.claimed_at }),
        ...(row.ready_at !== null && { readyAt: row.ready_at }),
        ...(row.activation_requested_at !== null && { activationRequestedAt: row.activation_requested_at }),
        ...(row.activation_overrides !== null && {
          activationOverrides: v.parse(overrides, JSON.parse(row.activation_overrides)),
        }),
        ...(row.activated_at !== null && { activatedAt: row.activated_at }),
        ...lifeOf(row),
        ...(row.cancelled_at !== null && {
          cancelled: { at: row.cancelled_at, media: v.parse(names, JSON.parse(row.cancelled_media ?? '[]')) },
        }),
      };
    } catch (error) {
      throw new AppError({
        code: 'store/row',
        message: `bundle ${row.bundle_id} in the state database can't be read: ${reasonOf(error)}; install the version of stickpin that wrote it again, or move state.db away and plug in the stick of each release that is to stay (the pins on disk hold until then)`,
        disposition: 'fatal',
        cause: error,
      });
    }
  });
}
