import type { Database } from 'better-sqlite3';
import { formatRevocationRecord, parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type {
  ConditionStore,
  EventLog,
  FloorRecordStore,
  RevocationStore,
  StateStore,
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
  createRetirementStore,
} from './bundle-store.ts';
import {
  append,
  createDurability,
  createRecording,
  type Recording,
  type RecordingOptions,
  read,
  write,
  writeThrough,
} from './recording.ts';
import { createBundleRows } from './tables/bundle-rows.ts';
import { createCancellationRows } from './tables/cancellation-rows.ts';
import { createConditionRows } from './tables/condition-rows.ts';
import { createIdentityRows, type IdentityRows } from './tables/identity-rows.ts';
import { type BundleReviver, loadBundles } from './tables/load-bundles.ts';
import { createPulledImageRows } from './tables/pulled-image-rows.ts';
import { createTagRows } from './tables/tag-rows.ts';
import { createTrustRows } from './tables/trust-rows.ts';

/** All that is recorded. */
export type Store = StateStore & RevocationStore & FloorRecordStore;

/**
 * The state in SQLite. Every change and its line of history are one transaction.
 *
 * What a round reads is kept in memory beside the database, so that a round costs no query; a
 * change replaces the value.
 *
 * A database that is found damaged while it is in use refuses every change with `store/damaged`
 * (`wait`) from then on, also in `trouble()`; what is in memory stays in force.
 *
 * @throws AppError `store/row` (`fatal`) when what was stored can't be read back; every change
 * throws `store/write`, `store/no-space` or `store/read-only` (`retry`), and changes nothing. What
 * is committed and does not get to the disk is in force all the same, and `settled()` throws the
 * same until it does.
 */
export function createStateStore(database: Database, revive: BundleReviver, options: RecordingOptions = {}): Store {
  const recording = createRecording(database, options);
  const identity = createIdentityRows(database);
  const trustRows = createTrustRows(database);
  const pulledImages = createPulledImageRows(database);
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
    ...createEventLog(recording),
    ...createAdoptionStore(parts),
    ...createVerdictStore(parts),
    ...createPreloadStore(parts, createCancellationRows(database), pulledImages),
    ...createActivationStore(parts),
    ...createMilestoneStore(parts),
    ...createRetirementStore(parts),
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
  return {
    setVerdict: (verdict, event) => {
      memory.trust = writeThrough(recording, () => {
        trustRows.setVerdict(verdict);
        append(recording, event);
        return trustRows.load();
      });
    },
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
      write(recording, () => {
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
