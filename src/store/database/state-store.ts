import type { Database } from 'better-sqlite3';
import { formatRevocationRecord, parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type { ConditionMarks, ConditionStatus, ConditionType } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { TagGiven } from '../../domain/state/memory.ts';
import type { EventRow, FloorRecordStore, RevocationStore, StateStore, StreamStore } from '../../ports/state.ts';
import {
  type BundleMemory,
  type BundleParts,
  createActivationStore,
  createAdoptionStore,
  createMilestoneStore,
  createPreloadStore,
  createRebuildStore,
  createRetirementStore,
  createStreamStore,
} from './bundle-store.ts';
import {
  append,
  createDurability,
  createRecording,
  createStateCopies,
  type Recording,
  type RecordingOptions,
  read,
  write,
  writeThrough,
} from './recording.ts';
import {
  type BundleReviver,
  BundleRows,
  CancellationRows,
  loadBundles,
  PulledImageRows,
} from './tables/bundle-rows.ts';
import { createTrustRows } from './tables/trust-rows.ts';

export type Store = StateStore & RevocationStore & StreamStore & FloorRecordStore;

/**
 * The state in SQLite. Every change and its event are one transaction. The values that a round
 * reads are also in memory.
 * When damage is found, every later change throws `store/damaged` (`wait`), as `trouble()` returns
 * it. The values in memory stay in use.
 * @throws AppError `store/row` (`fatal`) when a stored row can't be read. A change that can't be
 *   written throws `store/write`, `store/no-space` or `store/read-only` (`retry`), and changes
 *   nothing. A commit that can't be synced to the disk is in use all the same; `settled()` throws
 *   from then on.
 */
export function createStateStore(database: Database, revive: BundleReviver, options: RecordingOptions = {}): Store {
  return createStores(createRecording(database, options), revive);
}

export function createStores(recording: Recording, revive: BundleReviver): Store {
  const { database } = recording;
  const trustRows = createTrustRows(database);
  const pulledImages = new PulledImageRows(database);
  const cancellations = new CancellationRows(database);
  const memory: BundleMemory = {
    bundles: loadBundles(database, revive),
    pulledByUs: pulledImages.load(),
    trust: trustRows.load(),
  };
  const age = { origin: originOf(database) };
  const parts: BundleParts = { recording, memory, bundleRows: new BundleRows(database), trustRows };
  return {
    load: () => ({
      bundles: memory.bundles,
      pulledByUs: memory.pulledByUs,
      ...memory.trust,
      age: { origin: age.origin, revision: recording.revision },
    }),
    ...createDurability(recording),
    ...createStateCopies(recording),
    ...createEventLog(recording),
    ...createAdoptionStore(parts),
    ...createRebuildStore(parts, cancellations),
    ...createVerdictStore(parts),
    ...createPreloadStore(parts, cancellations, pulledImages),
    ...createActivationStore(parts),
    ...createMilestoneStore(parts),
    ...createRetirementStore(parts),
    ...createStreamStore(parts),
    ...createConditionStore(recording),
    ...createTagStore(recording),
    ...createRevocationStore(parts),
    ...createFloorRecordStore(recording, age),
  };
}

function createEventLog(recording: Recording): Pick<StateStore, 'append' | 'events'> {
  return {
    append: (event) => write(recording, () => append(recording, event)),
    events: (bundleId, limit) => read(recording, () => recording.events.list(bundleId, limit)),
  };
}

function createVerdictStore({
  recording,
  memory,
  trustRows,
}: BundleParts): Pick<StateStore, 'setVerdict' | 'rejectName' | 'allowName'> {
  const change = (event: EventRow, write: () => void) => {
    memory.trust = writeThrough(recording, () => {
      write();
      append(recording, event);
      return trustRows.load();
    });
  };
  return {
    setVerdict: (verdict, event) => change(event, () => trustRows.setVerdict(verdict)),
    rejectName: (rejected, event) => change(event, () => trustRows.rejectName(rejected)),
    allowName: (release, event) => change(event, () => trustRows.allowName(release)),
  };
}

function createConditionStore(recording: Recording): Pick<StateStore, 'conditions' | 'setConditions'> {
  const { database } = recording;
  const upsert = database.prepare(
    `INSERT INTO condition (bundle_id, type, status, since) VALUES (?, ?, ?, ?)
     ON CONFLICT (bundle_id, type) DO UPDATE SET status = excluded.status, since = excluded.since`,
  );
  let conditions: ReadonlyMap<BundleId, ConditionMarks> = loadConditions(database);
  return {
    conditions: () => conditions,
    setConditions: (changed) => {
      write(recording, () => {
        for (const [bundleId, marks] of changed) {
          for (const [type, mark] of Object.entries(marks)) {
            const was = conditions.get(bundleId)?.[type as ConditionType];
            if (was?.status === mark.status && was.since === mark.since) continue;
            upsert.run(bundleId, type, mark.status, mark.since);
          }
        }
      });
      conditions = new Map([...conditions, ...changed]);
    },
  };
}

function loadConditions(database: Database): Map<BundleId, ConditionMarks> {
  const rows = database.prepare<[], { bundle_id: string; type: string; status: string; since: number }>(
    'SELECT bundle_id, type, status, since FROM condition',
  );
  const conditions = new Map<BundleId, ConditionMarks>();
  for (const { bundle_id, type, status, since } of rows.all()) {
    const bundleId = bundle_id as BundleId;
    const mark = { status: status as ConditionStatus, since };
    conditions.set(bundleId, { ...conditions.get(bundleId), [type as ConditionType]: mark });
  }
  return conditions;
}

function createTagStore(recording: Recording): Pick<StateStore, 'tagsGiven' | 'setTagsGiven'> {
  const { database } = recording;
  const clear = database.prepare('DELETE FROM tag_given');
  const insert = database.prepare('INSERT INTO tag_given (tag, at) VALUES (?, ?)');
  // Oldest first.
  let tagsGiven: readonly TagGiven[] = database
    .prepare<[], TagGiven>('SELECT tag, at FROM tag_given ORDER BY rowid')
    .all();
  return {
    tagsGiven: () => tagsGiven,
    setTagsGiven: (given) => {
      write(recording, () => {
        clear.run();
        for (const { tag, at } of given) insert.run(tag, at);
      });
      tagsGiven = given;
    },
  };
}

function createRevocationStore({ recording, trustRows }: BundleParts): RevocationStore {
  return {
    revocationRecord: () => {
      const text = read(recording, trustRows.revocationRecord);
      return text === undefined ? undefined : parseRevocationRecord(text, recording.database.name);
    },
    setRevocationRecord: (record, event) =>
      writeThrough(recording, () => {
        trustRows.setRevocationRecord(formatRevocationRecord(record));
        if (event !== undefined) append(recording, event);
      }),
  };
}

function createFloorRecordStore(recording: Recording, age: { origin: string }): FloorRecordStore {
  const { database } = recording;
  const renew = database.prepare('UPDATE origin SET id = lower(hex(randomblob(16)))');
  const select = database.prepare<[], string>('SELECT document FROM floor_record').pluck();
  const upsert = database.prepare(
    'INSERT INTO floor_record (id, document) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document',
  );
  return {
    renewOrigin: () => {
      age.origin = write(recording, () => {
        renew.run();
        return originOf(database);
      });
    },
    floorRecord: () => read(recording, () => select.get()),
    setFloorRecord: (document) => writeThrough(recording, () => void upsert.run(document)),
  };
}

/** 32 hexadecimal digits. Empty when there is none. */
function originOf(database: Database): string {
  return database.prepare<[], string>('SELECT id FROM origin').pluck().get() ?? '';
}
