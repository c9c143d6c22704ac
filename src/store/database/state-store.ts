import type { Database } from 'better-sqlite3';
import { formatRevocationRecord, parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type {
  ConditionStore,
  EventLog,
  EventRow,
  FloorRecordStore,
  RevocationStore,
  StateStore,
  StreamStore,
  TagStore,
  VerdictStore,
} from '../../ports/state.ts';
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
  createBundleRows,
  createCancellationRows,
  createPulledImageRows,
  loadBundles,
} from './tables/bundle-rows.ts';
import { createConditionRows } from './tables/condition-rows.ts';
import { createIdentityRows, type IdentityRows } from './tables/identity-rows.ts';
import { createTagRows } from './tables/tag-rows.ts';
import { createTrustRows } from './tables/trust-rows.ts';

export type Store = StateStore & RevocationStore & StreamStore & FloorRecordStore;

/**
 * The state in SQLite. Every change and its event are one transaction.
 *
 * The values that a round reads are also in memory, so that a round needs no query. A change
 * replaces the value.
 *
 * When damage is found while the database is open, every later change throws `store/damaged`
 * (`wait`), and `trouble()` returns it. The values in memory stay in use.
 *
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
  const identity = createIdentityRows(database);
  const trustRows = createTrustRows(database);
  const pulledImages = createPulledImageRows(database);
  const cancellations = createCancellationRows(database);
  const memory: BundleMemory = {
    bundles: loadBundles(database, revive),
    pulledByUs: pulledImages.load(),
    trust: trustRows.load(),
  };
  const age = { origin: identity.origin() };
  const parts: BundleParts = { recording, memory, bundleRows: createBundleRows(database), trustRows };
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
    ...createFloorRecordStore(recording, identity, age),
  };
}

function createEventLog(recording: Recording): EventLog {
  return {
    append: (event) => write(recording, () => append(recording, event)),
    events: (bundleId, limit) => read(recording, () => recording.events.list(bundleId, limit)),
  };
}

function createVerdictStore({ recording, memory, trustRows }: BundleParts): VerdictStore {
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

function createConditionStore(recording: Recording): ConditionStore {
  const rows = createConditionRows(recording.database);
  let conditions = rows.load();
  return {
    conditions: () => conditions,
    setConditions: (changed) => {
      write(recording, () => rows.set(changed, conditions));
      conditions = new Map([...conditions, ...changed]);
    },
  };
}

function createTagStore(recording: Recording): TagStore {
  const rows = createTagRows(recording.database);
  let tagsGiven = rows.load();
  return {
    tagsGiven: () => tagsGiven,
    setTagsGiven: (given) => {
      write(recording, () => rows.set(given));
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

function createFloorRecordStore(recording: Recording, rows: IdentityRows, age: { origin: string }): FloorRecordStore {
  return {
    renewOrigin: () => {
      age.origin = write(recording, () => {
        rows.renewOrigin();
        return rows.origin();
      });
    },
    floorRecord: () => read(recording, rows.floors),
    setFloorRecord: (document) => writeThrough(recording, () => rows.setFloors(document)),
  };
}
