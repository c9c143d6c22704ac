import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { newPause } from '../../../src/domain/fleet/pause.ts';
import type { Sighting } from '../../../src/domain/fleet/sightings.ts';
import type { EventRow } from '../../../src/ports/state.ts';
import { openDatabase } from '../../../src/store/database/database.ts';
import { Recording, type RecordingOptions } from '../../../src/store/database/recording.ts';
import { APPLICATION_ID, SCHEMA } from '../../../src/store/database/schema.ts';
import { SqliteState, valuesIn } from '../../../src/store/database/state-store.ts';
import { digestOf, NOON, verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';

const { signal } = new AbortController();
const bundle = verified();
const other = verified({ name: 'tools', version: '1.0.0' });
const event = (at: number, kind: string, over: Partial<EventRow> = {}): EventRow => ({
  at,
  kind,
  message: kind,
  ...over,
});

let folder: string;
let path: string;
let open: Database.Database[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-store-'));
  path = join(folder, 'deep/state.db');
});
afterEach(() => {
  for (const database of open) database.close();
  open = [];
  rmSync(folder, { recursive: true, force: true });
});

function stateIn(database: Database.Database, options?: RecordingOptions): SqliteState {
  const recording = new Recording(database, options);
  const opened = { recording, values: valuesIn(recording, reviveBundle) };
  return new SqliteState({
    current: () => opened,
    settled: (inner) => recording.settled(inner),
    writeMirror: async () => undefined,
  });
}

function openStore() {
  const database = openDatabase(path);
  open.push(database);
  return { database, store: stateIn(database) };
}

describe('a request for activation', () => {
  it('is kept with what was confirmed; the next one replaces that', () => {
    const { store } = openStore();
    store.adopt(bundle, event(1, 'bundleVerified'));
    store.change(
      bundle.bundleId,
      { activationRequestedAt: 2, activationOverrides: ['rule/from', 'rule/rollout'] },
      event(2, 'activation-requested'),
    );
    expect(openStore().store.load().bundles).toEqual(store.load().bundles);
    expect(openStore().store.load().bundles[0]).toMatchObject({
      activationRequestedAt: 2,
      activationOverrides: ['rule/from', 'rule/rollout'],
    });
    store.change(
      bundle.bundleId,
      { activationRequestedAt: 3, activationOverrides: [] },
      event(3, 'activation-requested'),
    );
    expect(openStore().store.load().bundles[0]).toMatchObject({ activationRequestedAt: 3, activationOverrides: [] });
  });
});

describe('openDatabase', () => {
  it('makes an empty file into a database of its schema, in WAL mode, synchronised at each checkpoint', () => {
    const { database } = openStore();
    expect(database.pragma('user_version', { simple: true })).toBe(SCHEMA);
    expect(database.pragma('application_id', { simple: true })).toBe(APPLICATION_ID);
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(database.pragma('synchronous', { simple: true })).toBe(1);
  });

  it('has another SCHEMA once its columns change: SQLite finds a lacking one only when it is written', () => {
    const { database } = openStore();
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").pluck().all();
    const columns = tables.map((table) => [table, database.pragma(`table_info(${table})`)]);
    expect([SCHEMA, digestOf(JSON.stringify(columns))]).toEqual([
      1,
      'sha256:1f7208847ccf6fb2f5a751dcb50abb8d0f300bb273b64a23d7f832561270ec96',
    ]);
  });

  it.each([
    ['schema', `PRAGMA user_version = ${SCHEMA + 1}`],
    ['program', 'PRAGMA application_id = 0'],
  ])('refuses the database of another %s, and leaves it as it is', (_what, sql) => {
    const { database } = openStore();
    database.exec(sql);
    const versions = () => ['user_version', 'application_id'].map((name) => database.pragma(name, { simple: true }));
    const before = versions();
    expect(() => openDatabase(path)).toThrow(
      expect.objectContaining({
        code: 'store/version',
        disposition: 'wait',
        message: expect.stringMatching(
          /^Another version of stickpin wrote .*deep\/state\.db \(its schema is not \d+\): /,
        ),
      }),
    );
    expect(versions()).toEqual(before);
  });

  it('says which file is damaged and what to do', () => {
    writeFileSync(
      join(folder, 'state.db'),
      'this is not a database, but it is long enough to be taken for one'.repeat(99),
    );
    expect(() => openDatabase(join(folder, 'state.db'))).toThrow(
      expect.objectContaining({
        code: 'store/open',
        disposition: 'fatal',
        message: expect.stringMatching(/state\.db can't be opened.*not a database; see that the disk works/),
      }),
    );
  });

  it('notices a file that was cut off', () => {
    const { database, store } = openStore();
    for (let count = 0; count < 200; count += 1) store.append(event(count, 'filler'.repeat(50)));
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    truncateSync(path, Math.floor(statSync(path).size / 4096 / 2) * 4096);
    expect(() => openStore().store.events(undefined, 1_000)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^store\//), disposition: 'fatal' }),
    );
  });

  it('says what is wrong when the path can not be used', () => {
    writeFileSync(join(folder, 'file'), '');
    expect(() => openDatabase(join(folder, 'file/state.db'))).toThrow(
      expect.objectContaining({ code: 'store/open', message: expect.stringContaining(join(folder, 'file/state.db')) }),
    );
  });
});

describe('state store', () => {
  it('adopts a bundle once, with its line of history', () => {
    const { store } = openStore();
    store.adopt(bundle, event(NOON, 'bundleVerified', { bundleId: bundle.bundleId, medium: 'sdb1' }));
    store.adopt(bundle, event(NOON + 5, 'bundleVerified', { bundleId: bundle.bundleId }));
    expect(store.load().bundles).toEqual([{ ...bundle, adoptedAt: NOON }]);
    expect(store.events(undefined, 10)).toEqual([
      {
        at: NOON,
        kind: 'bundleVerified',
        message: 'bundleVerified',
        bundleId: bundle.bundleId,
        medium: 'sdb1',
        by: 'daemon',
      },
    ]);
  });

  it('keeps the phases of a release, its soak clock and its pulled images over a restart', () => {
    const { database, store } = openStore();
    for (const one of [bundle, other]) store.adopt(one, event(NOON, 'bundleVerified'));
    const run = { key: 'pod/etcd', containerId: 'c1', startedAt: NOON, sinceMs: 5_000 };
    const component = {
      component: 'etcd',
      counts: true,
      runs: [run],
      failed: ['c0'],
      disturbedMs: 4_000,
      startedAt: NOON,
    };
    const soak = { activatedAt: NOON + 1, bootId: 'boot-1', components: [component], backSinceMs: 9_000 };
    store.change(bundle.bundleId, { activeAt: NOON + 1 }, event(NOON + 1, 'bundleActive'));
    store.change(bundle.bundleId, { soak });
    store.change(bundle.bundleId, { provenAt: NOON + 2 }, event(NOON + 2, 'bundleProven'));
    const back = event(NOON + 3, 'bundleRolledBack', { message: 'it went back, and why' });
    const next = { bundleId: other.bundleId, event: event(NOON + 4, 'activation-requested') };
    store.rollBack(bundle.bundleId, back, next, { text: 'it went back' });
    store.change(bundle.bundleId, { retiredAt: NOON + 4, removeImages: false }, event(NOON + 4, 'bundleRetired'));
    for (const reference of ['a@sha256:1', 'b@sha256:2', 'b@sha256:2']) store.setPulledByUs(reference, true);
    store.setPulledByUs('a@sha256:1', false);
    store.setPulledByUs('c@sha256:3', false);
    const expected = {
      bundles: [
        {
          ...bundle,
          adoptedAt: NOON,
          activeAt: NOON + 1,
          soak,
          provenAt: NOON + 2,
          rolledBackAt: NOON + 3,
          rolledBackReason: 'it went back',
          retiredAt: NOON + 4,
          removeImages: false,
        },
        { ...other, adoptedAt: NOON, activationRequestedAt: NOON + 4 },
      ],
      pulledByUs: new Set(['b@sha256:2']),
      past: [],
      speakers: [],
      pauses: [],
      sightings: new Map(),
      rotation: { keys: [], revoked: [] },
      verdicts: [],
      rejectedNames: [],
    };
    expect(store.load()).toEqual(expected);
    expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual([
      'bundleVerified',
      'bundleVerified',
      'bundleActive',
      'bundleProven',
      'bundleRolledBack',
      'activation-requested',
      'bundleRetired',
    ]);
    database.close();
    expect(openStore().store.load()).toEqual(expected);
  });

  it('keeps pauses over a restart, and none that it can not read', () => {
    const { database, store } = openStore();
    const said = { name: 'ocp', version: '4.13.7', node: 'worker-1', by: 'uid 1000', why: 'no power' };
    const pause = newPause({ ...said, atMs: NOON, forMs: 60_000 });
    store.setPauses([pause], [event(NOON, 'rollOutPaused')]);
    expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['rollOutPaused']);
    database.close();
    const again = openStore();
    expect(again.store.load().pauses).toEqual([pause]);
    for (const damaged of ['[{"id":"x"}]', '[{']) {
      again.store.setDocument('pauses', damaged);
      expect(openStore().store.load().pauses).toEqual([]);
    }
  });

  it('keeps how long other nodes ran a release, not since when, and begins anew where it can not read that', () => {
    const { database, store } = openStore();
    const sighting = { wellMs: 60_000, longestMs: 90_000, wasWell: true, disturbedMs: 7, atMs: 5 };
    store.setSightings(
      new Map<string, Sighting>([
        ['a worker-1', sighting],
        ['a worker-2', { longestMs: 0, wasWell: true }],
      ]),
    );
    database.close();
    const again = openStore();
    const { atMs: _, ...kept } = sighting;
    expect(again.store.load().sightings).toEqual(new Map([['a worker-1', kept]]));
    again.store.setDocument('sightings', '[["a worker-1",{}]]');
    expect(openStore().store.load().sightings).toEqual(new Map());
  });

  it('marks the bundle that is named, at the time of the event', () => {
    const { store } = openStore();
    for (const one of [bundle, other]) store.adopt(one, event(NOON, 'bundleVerified'));
    store.change(bundle.bundleId, { readyAt: NOON + 1 }, event(NOON + 1, 'bundleReady'));
    store.change(bundle.bundleId, { activationRequestedAt: NOON + 2 }, event(NOON + 2, 'activation-requested'));
    store.change(bundle.bundleId, { activatedAt: NOON + 3 }, event(NOON + 3, 'bundleActivated'));
    expect(store.load().bundles).toEqual([
      { ...bundle, adoptedAt: NOON, readyAt: NOON + 1, activationRequestedAt: NOON + 2, activatedAt: NOON + 3 },
      { ...other, adoptedAt: NOON },
    ]);
  });

  it('keeps everything over a restart, in the order of adoption', () => {
    const before = openStore();
    before.store.adopt(other, event(NOON, 'bundleVerified', { bundleId: other.bundleId }));
    before.store.adopt(bundle, event(NOON, 'bundleVerified', { bundleId: bundle.bundleId, medium: 'sdb1' }));
    before.store.change(
      other.bundleId,
      { activatedAt: NOON + 1 },
      event(NOON + 1, 'bundleActivated', { bundleId: other.bundleId }),
    );
    const bundles = before.store.load();
    const events = before.store.events(undefined, 10);
    before.database.close();
    const after = openStore().store;
    expect(after.load()).toEqual(bundles);
    expect(after.load().bundles.map(({ payload }) => payload.name)).toEqual(['tools', 'ocp']);
    expect(after.events(undefined, 10)).toEqual(events);
  });

  it('keeps who did something, the daemon unless it is said', () => {
    const { store } = openStore();
    store.append(event(1, 'e1'));
    store.append(event(2, 'e2', { by: 'uid 1000: activate' }));
    expect(store.events(undefined, 3).map(({ by }) => by)).toEqual(['daemon', 'uid 1000: activate']);
  });

  it('returns the newest events, oldest first, of all or of one bundle', () => {
    const { store } = openStore();
    for (let count = 1; count <= 5; count += 1) {
      store.append(event(count, `e${count}`, count % 2 === 0 ? { bundleId: bundle.bundleId } : {}));
    }
    expect(store.events(undefined, 3).map(({ kind }) => kind)).toEqual(['e3', 'e4', 'e5']);
    expect(store.events(bundle.bundleId, 9).map(({ kind }) => kind)).toEqual(['e2', 'e4']);
    expect(store.events(other.bundleId, 9)).toEqual([]);
    expect(store.events(undefined, 0)).toEqual([]);
  });

  it('changes nothing when one half of a change fails', () => {
    const { database, store } = openStore();
    store.adopt(bundle, event(NOON, 'bundleVerified'));
    database.exec('DROP TABLE event');
    expect(() => store.change(bundle.bundleId, { readyAt: NOON }, event(NOON, 'bundleReady'))).toThrow();
    expect(() => store.adopt(other, event(NOON, 'bundleVerified'))).toThrow();
    expect(store.load().bundles).toEqual([{ ...bundle, adoptedAt: NOON }]);
    expect(database.prepare('SELECT ready_at FROM bundle').pluck().all()).toEqual([null]);
  });

  it('keeps the damaged blobs of a bundle over a restart, until they are cleared', () => {
    const badBlobs = [{ digest: digestOf('a blob'), why: 'damaged', medium: 'sdb1' }] as const;
    const { store } = openStore();
    store.adopt(bundle, event(1, 'bundleVerified'));
    store.change(bundle.bundleId, { badBlobs });
    const { store: again } = openStore();
    expect(again.load().bundles[0]?.badBlobs).toEqual(badBlobs);
    again.change(bundle.bundleId, { badBlobs: undefined });
    expect(openStore().store.load().bundles[0]).not.toHaveProperty('badBlobs');
  });

  it('keeps the newest lines of the history only', () => {
    const store = stateIn(openStore().database, { keptEvents: 3 });
    for (let at = 1; at <= 8; at += 1) store.append(event(at, `e${at}`));
    expect(store.events(undefined, 100).map(({ kind }) => kind)).toEqual(['e6', 'e7', 'e8']);
  });

  it('removes events by their age, keeps the newest 100, and reads them in their order', () => {
    const DAY = 86_400_000;
    const { database } = openStore();
    const store = stateIn(database, { keptMs: 365 * DAY });
    for (let day = 0; day < 600; day += 1) store.append(event(NOON + day * DAY, `d${day}`));
    const kinds = store.events(undefined, 10_000).map(({ kind }) => kind);
    expect(kinds.at(-1)).toBe('d599');
    // By age they are removed with every 64th event.
    expect(Number(kinds[0]?.slice(1))).toBeGreaterThanOrEqual(599 - 365 - 64);
    expect(Number(kinds[0]?.slice(1))).toBeLessThanOrEqual(599 - 365);
    // A clock that jumps years ahead takes away what is older than the newest 100, and no more.
    for (let at = 0; at < 64; at += 1) store.append(event(NOON + 9_000 * DAY, `ahead${at}`));
    store.append(event(NOON + 600 * DAY, 'back'));
    const rest = store.events(undefined, 10_000).map(({ kind }) => kind);
    expect(rest.length).toBeGreaterThanOrEqual(100);
    expect(rest.slice(-2)).toEqual(['ahead63', 'back']);
  });

  it('reports a failed write with a separate error that names the file', () => {
    const { database, store } = openStore();
    database.pragma('query_only = ON');
    expect(() => store.append(event(NOON, 'x'))).toThrow(
      expect.objectContaining({ code: 'store/write', disposition: 'retry', message: expect.stringContaining(path) }),
    );
  });

  it('says which bundle can not be read back', () => {
    const { database, store } = openStore();
    store.adopt(bundle, event(NOON, 'bundleVerified'));
    database.exec("UPDATE bundle_content SET payload = '{'");
    expect(() => stateIn(database)).toThrow(
      expect.objectContaining({
        code: 'store/row',
        disposition: 'fatal',
        message: expect.stringContaining(bundle.bundleId),
      }),
    );
  });
});

describe('cancelled preloads', () => {
  it('survive a restart, are undone, and leave one line of history each', () => {
    const { store } = openStore();
    for (const one of [bundle, other]) store.adopt(one, event(NOON, 'adopted'));
    store.cancel([bundle.bundleId, other.bundleId], ['7-sdb1'], event(NOON + 1, 'cancel-requested'));
    const cancelled = { at: NOON + 1, media: ['7-sdb1'] };
    expect(
      openStore()
        .store.load()
        .bundles.map((one) => one.cancelled),
    ).toEqual([cancelled, cancelled]);
    store.setCancelledMedia(other.bundleId, []);
    store.cancel([bundle.bundleId], undefined, event(NOON + 2, 'preload-resumed'));
    store.setCancelledMedia(bundle.bundleId, []);
    expect(store.load().bundles.map((one) => one.cancelled)).toEqual([undefined, { at: NOON + 1, media: [] }]);
    expect(openStore().store.load()).toEqual(store.load());
    expect(store.events(undefined, 2).map(({ kind }) => kind)).toEqual(['cancel-requested', 'preload-resumed']);
  });
});

describe('trust', () => {
  const keyId = 'a'.repeat(64);
  const rotation = { keys: [{ keyId, pem: 'PEM', bundleId: bundle.bundleId }], revoked: [] };

  it('keeps keys with each bundle that added or revoked them', () => {
    const { store } = openStore();
    const second = {
      keys: [{ keyId, pem: 'OTHER', bundleId: other.bundleId }],
      revoked: [{ keyId, bundleId: other.bundleId }],
    };
    store.adopt(bundle, event(1, 'adopted'), { ...rotation, revoked: [{ keyId, bundleId: bundle.bundleId }] });
    store.adopt(other, event(2, 'adopted'), second);
    const wanted = {
      keys: [...rotation.keys, ...second.keys],
      revoked: [{ keyId, bundleId: bundle.bundleId }, ...second.revoked],
    };
    expect(store.load().rotation).toEqual(wanted);
    expect(openStore().store.load().rotation).toEqual(wanted);
  });

  it('keep a key that bundles of two streams brought when one stream is reset', () => {
    const { store } = openStore();
    const second = { keys: [{ keyId, pem: 'PEM', bundleId: other.bundleId }], revoked: [] };
    store.adopt(bundle, event(1, 'adopted'), rotation);
    store.adopt(other, event(2, 'adopted'), second);
    store.resetStream(bundle.payload.name, event(3, 'streamReset'));
    expect(openStore().store.load().rotation.keys).toEqual(second.keys);
  });

  it('keeps the last verdict about a digest', () => {
    const { store } = openStore();
    store.setVerdict({ bundleId: bundle.bundleId, verdict: 'approved', at: 1 }, event(1, 'bundleApproved'));
    store.setVerdict({ bundleId: bundle.bundleId, verdict: 'rejected', at: 2, reason: 'x' }, event(2, 'bundleVetoed'));
    expect(openStore().store.load().verdicts).toEqual([
      { bundleId: bundle.bundleId, verdict: 'rejected', at: 2, reason: 'x' },
    ]);
    expect(store.events(undefined, 9).map(({ kind }) => kind)).toEqual(['bundleApproved', 'bundleVetoed']);
  });

  it('keeps the signers, and those that other media show', () => {
    const { store } = openStore();
    store.adopt(bundle, event(1, 'adopted'));
    expect(openStore().store.load().bundles[0]?.signerKeyIds).toEqual(bundle.signerKeyIds);
    const signers = { signedBy: ['a', 'b'], signerKeyIds: [keyId] };
    store.change(bundle.bundleId, signers, event(2, 'bundleVerified'));
    expect(store.load().bundles[0]).toMatchObject(signers);
    expect(openStore().store.load().bundles[0]).toMatchObject(signers);
  });
});

describe('conditions', () => {
  it('keep their times over a restart, and a change replaces that one alone', () => {
    const { store, database } = openStore();
    store.setConditions(
      new Map([
        [bundle.bundleId, { Verified: { status: 'True', since: 1 }, Pinned: { status: 'False', since: 2 } }],
        [other.bundleId, { Verified: { status: 'Unknown', since: 3 } }],
      ]),
    );
    const changes = () => database.prepare('SELECT total_changes()').pluck().get() as number;
    const before = changes();
    const later = { Verified: { status: 'True', since: 1 }, Pinned: { status: 'True', since: 9 } } as const;
    store.setConditions(new Map([[bundle.bundleId, later]]));
    // With the counter of changes and its checksum.
    expect(changes() - before).toBe(3);
    expect(store.conditions().get(other.bundleId)).toEqual({ Verified: { status: 'Unknown', since: 3 } });
    const again = openStore().store.conditions();
    expect(again.get(bundle.bundleId)).toEqual(later);
    expect(again.get(other.bundleId)).toEqual({ Verified: { status: 'Unknown', since: 3 } });
  });
});

describe('a sync of the log to the disk', () => {
  it('covers all changes before the request', async () => {
    const { database } = openStore();
    let runs = 0;
    let write: () => void = () => undefined;
    const sync = () =>
      new Promise<void>((resolve) => {
        runs += 1;
        write = resolve;
      });
    const store = stateIn(database, { sync });
    await eventually(() => expect(runs).toBe(1));
    write();
    await store.settled(signal);
    store.append(event(1, 'filler'));
    let isSettled = false;
    const settled = store.settled(signal).then(() => {
      isSettled = true;
    });
    await eventually(() => expect(runs).toBe(2));
    expect([isSettled, store.events(undefined, 10).length]).toEqual([false, 1]);
    write();
    await settled;
  });

  it('is not awaited after an abort, but still done', async () => {
    const { database } = openStore();
    let write: (() => void) | undefined;
    let isWritten = false;
    const sync = () =>
      new Promise<void>((resolve) => {
        write = () => {
          isWritten = true;
          resolve();
        };
      });
    const store = stateIn(database, { sync });
    await eventually(() => expect(write).toBeDefined());
    const stop = new AbortController();
    const settled = store.settled(stop.signal);
    const other = store.settled(signal);
    stop.abort(new Error('stop'));
    await expect(settled).rejects.toThrow('stop');
    write?.();
    await other;
    expect([isWritten, store.trouble()]).toEqual([true, undefined]);
  });

  it('whose files were removed is reported once, and by each change and trouble(), also behind a link', async () => {
    mkdirSync(dirname(path));
    writeFileSync(join(folder, 'real.db'), '');
    symlinkSync(join(folder, 'real.db'), path);
    const { store } = openStore();
    store.append(event(1, 'filler'));
    await store.settled(signal);
    // What SQLite has open goes on; it is not found by its name any more.
    rmSync(join(folder, 'real.db-wal'));
    store.append(event(2, 'filler'));
    const removed = {
      code: 'store/damaged',
      message: expect.stringMatching(/state\.db were removed while stickpin runs.*'systemctl restart stickpin'/),
    };
    await expect(store.settled(signal)).rejects.toMatchObject({ ...removed, disposition: 'wait' });
    expect(store.trouble()).toEqual(removed);
    expect(() => store.append(event(3, 'filler'))).toThrow(expect.objectContaining(removed));
    await store.settled(signal);
    expect(store.events(undefined, 10)).toHaveLength(2);
  });

  it('is complete once the database is closed', async () => {
    const { database, store } = openStore();
    store.append(event(1, 'filler'));
    database.close();
    open = [];
    await store.settled(signal);
    expect(openStore().store.events(undefined, 10)).toHaveLength(1);
  });
});

describe('restored tags', () => {
  it('are known in their order after a restart', () => {
    const { store } = openStore();
    expect(store.tagsGiven()).toEqual([]);
    const given = ['b', 'a', 'b'].map((tag, index) => ({ tag, at: NOON - index }));
    store.setTagsGiven(given);
    expect(openStore().store.tagsGiven()).toEqual(given);
    store.setTagsGiven(given.slice(1));
    expect(store.tagsGiven()).toEqual(given.slice(1));
    expect(openStore().store.tagsGiven()).toEqual(given.slice(1));
  });
});
