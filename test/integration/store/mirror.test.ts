import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NO_FLOORS } from '../../../src/domain/adoption/floors.ts';
import type { MediumId } from '../../../src/domain/model/medium.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import type { Store } from '../../../src/ports/state.ts';
import { openDatabase } from '../../../src/store/database/database.ts';
import { floorsDocument, parseFloors } from '../../../src/store/database/documents.ts';
import { takeForeignMirror } from '../../../src/store/database/foreign-mirror.ts';
import { Mirror } from '../../../src/store/database/mirror.ts';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { mounting } from '../../support/files/small-disk.ts';
import { have } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const bundle = verified();
const other = verified({ name: 'tools', version: '1.0.0' });
const event = (kind: string) => ({ at: NOON, kind, message: kind });

let folder: string;
let path: string;
let mirror: string;
let opened: OpenState | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-store-'));
  path = join(folder, 'state.db');
  mirror = join(folder, 'state.json');
});
afterEach(() => {
  opened?.close();
  rmSync(folder, { recursive: true, force: true });
});

function open(): OpenState {
  opened?.close();
  opened = openSampleState(path);
  return opened;
}

function close(): void {
  opened?.close();
  opened = undefined;
}

function lose(): void {
  close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
}

/** One bundle in the earlier generation, two in the newest. */
async function makeMirror(): Promise<void> {
  const { store } = open();
  store.adopt(bundle, event('bundleVerified'));
  await store.mirror(signal);
  store.adopt(other, event('bundleVerified'));
  await store.mirror(signal);
}
const names = () => (opened?.store.load().bundles ?? []).map(({ payload }) => payload.name);
const contentOf = (file: string) => JSON.parse(readFileSync(file, 'utf8')).content;
/** Writes content with its checksum. */
function seal(file: string, content: object): void {
  const body = JSON.stringify(content);
  writeFileSync(file, `{"checksum":"${digestOf(body)}","content":${body}}\n`);
}

const CHANGES: Readonly<Record<string, (store: Store) => void>> = {
  'an adoption': (store) => store.adopt(verified({ name: 'third', version: '1.0.0' }), event('bundleVerified')),
  'a milestone': (store) => store.change(bundle.bundleId, { activatedAt: NOON }, event('bundleActivated')),
  'the begin of an activation': (store) => store.change(bundle.bundleId, { activationBegunAt: NOON }),
  'a retirement': (store) => store.change(bundle.bundleId, { retiredAt: NOON }, event('bundleRetired')),
  'a rollback': (store) =>
    store.rollBack(
      bundle.bundleId,
      event('bundleRolledBack'),
      { bundleId: other.bundleId, event: event('next') },
      { text: 'it went back' },
    ),
  'a cancellation': (store) => store.cancel([bundle.bundleId], [], event('cancelled')),
  'a verdict': (store) => store.setVerdict({ bundleId: bundle.bundleId, verdict: 'rejected', at: 1 }, event('no')),
  'a rejected name': (store) => store.rejectName({ name: 'a', version: '1', at: 1 }, event('no')),
  'a reset': (store) => store.resetStream('ocp', event('streamReset')),
  pins: (store) => store.setDocument('pins', '[1]'),
  floors: (store) => store.setDocument('floors', '[2]'),
  hooks: (store) => store.setDocument('hooks', '[3]'),
  'a revocation': (store) => store.setRevocationRecord({ folders: ['/a'], revocations: [] }),
  tags: (store) => store.setTagsGiven([{ tag: 'a:1', at: 1 }]),
  'a pulled image': (store) => store.setPulledByUs('a@sha256:1', true),
};
const allOf = (store: Store) =>
  JSON.stringify([
    store.load(),
    [...(store.load().pulledByUs ?? [])],
    store.tagsGiven(),
    store.revocationRecord(),
    ...(['pins', 'floors', 'hooks'] as const).map((name) => store.document(name)),
  ]);

describe('the mirror of the state database', () => {
  it.each(Object.entries(CHANGES))('that has not seen %s yet takes nothing back', async (_what, change) => {
    await makeMirror();
    const { store } = open();
    const before = allOf(store);
    change(store);
    const after = allOf(store);
    expect(after).not.toBe(before);
    const again = open();
    expect(again.loss).toBeUndefined();
    expect(allOf(again.store)).toBe(after);
    await again.store.mirror(signal);
    lose();
    expect(allOf(open().store)).toBe(after);
  });

  it('is written by one call after the other, each of which ends when its change is in it', async () => {
    const { store } = open();
    const calls = Array.from({ length: 20 }, async (_, at) => {
      const added = verified({ name: `stream-${at}`, version: '1.0.0' });
      store.adopt(added, event('bundleVerified'));
      await store.mirror(signal);
      expect(JSON.stringify(contentOf(mirror))).toContain(added.bundleId);
    });
    await Promise.all(calls);
    expect(readdirSync(folder).filter((name) => name.includes('new'))).toEqual([]);
  });

  it('has two generations, readable by the owner only, and nothing half-written stays', async () => {
    await makeMirror();
    open().store.change(bundle.bundleId, { readyAt: NOON }, event('bundleReady'));
    await opened?.store.mirror(signal);
    const files = readdirSync(folder).filter((name) => name.includes('state.json'));
    expect(files.sort()).toEqual(['state.json', 'state.json.before']);
    expect(files.map((name) => statSync(join(folder, name)).mode & 0o777)).toEqual([0o600, 0o600]);
  });

  it('is not written again without a change that must not be lost', async () => {
    await makeMirror();
    const before = statSync(mirror).ino;
    opened?.store.append(event('later'));
    opened?.store.change(bundle.bundleId, { badBlobs: [] });
    await opened?.store.mirror(signal);
    expect(statSync(mirror).ino).toBe(before);
  });

  it('makes a missing database again, with all but its history, and the loss names it', async () => {
    await makeMirror();
    const { store } = open();
    store.change(bundle.bundleId, { readyAt: NOON, activationOverrides: ['rule/from'] }, event('bundleReady'));
    store.cancel([other.bundleId], ['8:1' as MediumId], event('cancelled'));
    store.setVerdict({ bundleId: other.bundleId, verdict: 'approved', at: NOON }, event('approved'));
    store.rejectName({ name: 'ocp', version: '9.9.9', at: NOON, reason: 'no' }, event('rejected'));
    store.setPulledByUs('quay.example.com/a@sha256:1', true);
    store.setTagsGiven([{ tag: 'a:1', at: NOON }]);
    store.setRevocationRecord({ folders: ['/etc'], revocations: [] });
    store.setDocument('pins', '{"unclaimed":["a"]}');
    store.setDocument('floors', '{"sequences":[]}');
    await store.mirror(signal);
    const before = [
      store.load(),
      store.tagsGiven(),
      store.revocationRecord(),
      store.document('pins'),
      store.document('floors'),
    ];
    lose();
    expect(open().loss).toMatchObject({
      remains: 'mirror',
      message: expect.stringMatching(
        /state\.db could not be used: it is gone\. stickpin goes on with .*state\.json of 20/,
      ),
    });
    const again = open().store;
    expect([
      again.load(),
      again.tagsGiven(),
      again.revocationRecord(),
      again.document('pins'),
      again.document('floors'),
    ]).toEqual(before);
    expect(existsSync(`${path}.new`)).toBe(false);
    again.append(event('first'));
    expect(again.events(undefined, 10).map(({ kind }) => kind)).toEqual(['first']);
  });

  it.each<{ how: string; damage: () => void }>([
    { how: 'is gone', damage: () => rmSync(mirror) },
    { how: 'is cut', damage: () => truncateSync(mirror, 200) },
    { how: 'is empty', damage: () => truncateSync(mirror, 0) },
    { how: 'is garbage', damage: () => writeFileSync(mirror, 'garbage'.repeat(1_000)) },
    { how: 'has the content of something else', damage: () => seal(mirror, { one: 1 }) },
    {
      how: 'has a row that is not as it was written',
      damage: () => {
        const content = contentOf(mirror);
        content.tables.bundle[0].adopted_at = 7;
        seal(mirror, content);
      },
    },
    {
      how: 'has a table that is none',
      damage: () => seal(mirror, { ...contentOf(mirror), tables: { document: [{ 'x;': 1 }] } }),
    },
  ])('the generation before counts when the newest $how', async ({ damage }) => {
    await makeMirror();
    lose();
    damage();
    const { loss } = open();
    expect(loss?.remains).toBe('earlier');
    expect(loss?.message).toContain('state.json.before of ');
    expect(names()).toEqual(['ocp']);
  });

  it('is ignored when both generations are damaged: a new database is created', async () => {
    await makeMirror();
    lose();
    for (const suffix of ['', '.before', '.before.new']) writeFileSync(`${mirror}${suffix}`, 'garbage'.repeat(1_000));
    const { loss } = open();
    expect(loss).toMatchObject({
      remains: 'nothing',
      message: expect.stringMatching(/goes on with a new one: all pins stay/),
    });
    expect(names()).toEqual([]);
    await opened?.store.mirror(signal);
    expect(readdirSync(folder).filter((name) => name.includes('.damaged-'))).toHaveLength(2);
  });

  it('replaces a database that has seen fewer changes, and keeps its history', async () => {
    await makeMirror();
    close();
    const earlier = openDatabase(path);
    earlier.prepare('DELETE FROM bundle WHERE bundle_id = ?').run(other.bundleId);
    earlier.exec('UPDATE origin SET counter = counter - 1');
    earlier.close();
    const { loss, store } = open();
    expect(loss?.message).toMatch(/it is an earlier copy, or lost what was recorded last/);
    expect(names()).toEqual(['ocp', 'tools']);
    expect(store.events(undefined, 10)).toHaveLength(2);
  });

  it('replaces a database that counts as many changes and differs, as when the disk lost a page', async () => {
    await makeMirror();
    opened?.store.change(bundle.bundleId, { activatedAt: NOON }, event('bundleActivated'));
    await opened?.store.mirror(signal);
    close();
    const stale = openDatabase(path);
    stale.prepare('UPDATE bundle SET activated_at = NULL').run();
    stale.close();
    const { loss, store } = open();
    expect(loss).toMatchObject({
      remains: 'mirror',
      message: expect.stringContaining('as many changes as its mirror'),
    });
    expect(store.load().bundles[0]?.activatedAt).toBe(NOON);
    expect(store.events(undefined, 10)).toHaveLength(3);
    expect(open().loss).toBeUndefined();
  });

  it.each([
    ['the newest', 'earlier'],
    ['each', 'nothing'],
  ] as const)(
    'that is damaged, %s generation with the database: the new one records what is left, until that was used',
    async (_which, left) => {
      await makeMirror();
      lose();
      for (const file of left === 'nothing' ? [mirror, `${mirror}.before`] : [mirror]) truncateSync(file, 100);
      expect(open().loss?.remains).toBe(left);
      // As after a kill: nothing has used it.
      const { loss, store } = open();
      expect(loss).toBeUndefined();
      expect(store.document('loss')).toBe(left);
      const hidden = store.document('hidden-revocations');
      if (left === 'earlier') expect(hidden).toBeUndefined();
      else expect(existsSync(hidden ?? '')).toBe(true);
    },
  );

  it('is damaged when one digit of it is another one', async () => {
    await makeMirror();
    lose();
    const text = readFileSync(mirror, 'utf8');
    writeFileSync(
      mirror,
      text.replace(/"counter":(\d+)/, (_, counter) => `"counter":${Number(counter) + 1}`),
    );
    expect(open().loss?.remains).toBe('earlier');
  });

  it('keeps the earlier generation while the new one can not be written', async () => {
    await makeMirror();
    const before = readFileSync(`${mirror}.before`);
    mkdirSync(join(folder, '.state.json.new'));
    chmodSync(folder, 0o500);
    opened?.store.change(bundle.bundleId, { activatedAt: NOON }, event('bundleActivated'));
    const failed = await opened?.store.mirror(signal).catch((error: unknown) => error);
    chmodSync(folder, 0o700);
    // Root writes all the same; then both are whole.
    if (failed === undefined) expect(contentOf(`${mirror}.before`)).toBeDefined();
    else expect(readFileSync(`${mirror}.before`)).toEqual(before);
    expect(statSync(mirror).ino).not.toBe(statSync(`${mirror}.before`).ino);
  });

  it('is not asked for what only another version can read: nothing is set aside', async () => {
    await makeMirror();
    close();
    const database = openDatabase(path);
    database.prepare("UPDATE bundle_content SET contents = json_set(contents, '$.unknown', 1)").run();
    database.close();
    expect(open().refusal).toMatchObject({ code: 'store/version' });
    expect(names()).toEqual([]);
    expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toEqual([]);
  });

  it.each(['a folder that is there', 'a missing folder'])(
    'is not asked while the database is a link to a missing file in %s: its disk may not be mounted',
    async (where) => {
      await makeMirror();
      lose();
      const target = join(folder, where === 'a missing folder' ? 'disk/state.db' : 'disk.db');
      symlinkSync(target, path);
      expect(() => open()).toThrow(expect.objectContaining({ code: 'store/open' }));
      expect(readlinkSync(path)).toBe(target);
      expect(existsSync(target)).toBe(false);
    },
  );

  it('of which the newest generation is damaged and the database is older is that of the earlier one', async () => {
    await makeMirror();
    const older = join(folder, 'older.db');
    close();
    copyFileSync(path, older);
    const { store } = open();
    store.change(bundle.bundleId, { activatedAt: NOON }, event('bundleActivated'));
    await store.mirror(signal);
    store.change(other.bundleId, { activatedAt: NOON }, event('bundleActivated'));
    await store.mirror(signal);
    lose();
    copyFileSync(older, path);
    truncateSync(mirror, 100);
    expect(open().loss?.remains).toBe('earlier');
    expect(opened?.store.load().bundles.find(({ bundleId }) => bundleId === bundle.bundleId)?.activatedAt).toBe(NOON);
    await opened?.store.mirror(signal);
    expect(contentOf(`${mirror}.before`)).toBeDefined();
  });

  it('of another database replaces nothing, and is reported', async () => {
    await makeMirror();
    opened?.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    const elsewhere = join(folder, 'elsewhere');
    const another = openSampleState(join(elsewhere, 'state.db'));
    another.store.adopt(other, event('bundleVerified'));
    another.close();
    const foreign = new Database(join(elsewhere, 'state.db'));
    foreign.prepare('VACUUM INTO ?').run(path);
    foreign.close();
    opened = undefined;
    const { loss, foreignMirror, store, mirror: held } = open();
    expect(loss).toBeUndefined();
    expect(foreignMirror?.tables.bundle).toHaveLength(2);
    expect(names()).toEqual(['tools']);
    await expect(store.mirror(signal)).rejects.toMatchObject({ code: 'store/write' });
    expect(contentOf(mirror).tables.bundle).toHaveLength(2);
    const [aside = ''] = held.release();
    await store.mirror(signal);
    expect(contentOf(aside).tables.bundle).toHaveLength(2);
    // What belongs to another database is no earlier generation of this one.
    expect(existsSync(`${mirror}.before`)).toBe(false);
  });

  it('of another database gives what is stronger there: rejections, revoked keys and floors', async () => {
    const { store: before } = open();
    before.adopt(bundle, event('bundleVerified'), {
      keys: [],
      revoked: [{ keyId: 'a'.repeat(64), bundleId: bundle.bundleId }],
    });
    before.setVerdict(
      { bundleId: bundle.bundleId, verdict: 'rejected', at: NOON, reason: 'broken' },
      event('rejected'),
    );
    before.setVerdict({ bundleId: other.bundleId, verdict: 'rejected', at: NOON }, event('rejected'));
    before.rejectName({ name: 'shop', version: '2.0.0', at: NOON }, event('rejected'));
    before.setDocument('floors', JSON.stringify(floorsDocument({ ...NO_FLOORS, sequences: new Map([['shop', 7]]) })));
    await before.mirror(signal);
    lose();
    const elsewhere = join(folder, 'elsewhere');
    const another = openSampleState(join(elsewhere, 'state.db'));
    // A newer verdict of this database stays.
    another.store.setVerdict({ bundleId: other.bundleId, verdict: 'approved', at: NOON + 1 }, event('approved'));
    another.close();
    copyFileSync(join(elsewhere, 'state.db'), path);
    const { foreignMirror, store } = open();
    if (foreignMirror === undefined) expect.unreachable();
    takeForeignMirror(foreignMirror, store, NOON);
    const held = store.load();
    expect(held.verdicts).toEqual([
      { bundleId: bundle.bundleId, verdict: 'rejected', at: NOON, reason: 'broken' },
      { bundleId: other.bundleId, verdict: 'approved', at: NOON + 1 },
    ]);
    expect(held.rejectedNames).toEqual([{ name: 'shop', version: '2.0.0', at: NOON }]);
    expect(held.rotation.revoked).toEqual([{ keyId: 'a'.repeat(64), bundleId: bundle.bundleId }]);
    expect(parseFloors(JSON.parse(store.document('floors') ?? ''))?.sequences.get('shop')).toBe(7);
    // They are in the database, too.
    expect(open().store.load().verdicts).toEqual(held.verdicts);
  });

  it('by a newer stickpin is refused by name when the database is lost, and stays', async () => {
    await makeMirror();
    lose();
    seal(mirror, { ...contentOf(mirror), schema: 2 });
    const text = readFileSync(mirror, 'utf8');
    expect(open().refusal).toMatchObject({ code: 'store/version', message: expect.stringContaining(mirror) });
    expect(readFileSync(mirror, 'utf8')).toBe(text);
  });
});

describe.runIf(have(mounting))("a mirror of another database that can't be renamed", () => {
  it('is held, with the reason, until it can be', async () => {
    writeFileSync(mirror, 'newest');
    writeFileSync(`${mirror}.before`, 'before');
    const held = new Mirror(path, NOON);
    held.hold();
    // A file that something is mounted on can't be renamed.
    execFileSync('mount', ['--bind', mirror, mirror]);
    try {
      expect(() => held.release()).toThrow(expect.objectContaining({ code: 'store/write', disposition: 'retry' }));
      await expect(held.write(() => undefined, signal)).rejects.toThrow('could not be taken over yet');
    } finally {
      execFileSync('umount', [mirror]);
    }
    const [aside = ''] = held.release();
    expect(readFileSync(aside, 'utf8')).toBe('newest');
    expect(readdirSync(folder).filter((name) => !name.includes('.damaged-'))).toEqual([]);
  });
});
