import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string, at = NOON, message = kind) => ({ at, kind, message });
const release = (sequence: number) =>
  verified({ sequence, version: `4.13.${sequence}`, images: { [`etcd-${sequence}`]: [`layer-${sequence}`] } });

let folder: string;
let path: string;
let opened: OpenState;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-past-'));
  path = join(folder, 'state.db');
  opened = openSampleState(path);
});
afterEach(() => {
  opened.close();
  rmSync(folder, { recursive: true, force: true });
});

const reopen = () => {
  opened.close();
  opened = openSampleState(path);
  return opened.store;
};

/** A release from its adoption to its line, as a daemon records it. */
async function live(sequence: number): Promise<void> {
  const bundle = release(sequence);
  const { bundleId, contents } = bundle;
  const { store } = opened;
  store.adopt(bundle, event('bundleVerified', sequence));
  for (const { reference } of contents.images) store.setPulledByUs(reference, true);
  store.setVerdict({ bundleId, verdict: 'approved', at: sequence }, event('bundleApproved', sequence));
  store.setConditions(new Map([[bundleId, { Ready: { status: 'True', since: sequence } } as never]]));
  store.change(bundleId, { readyAt: sequence, activatedAt: sequence }, event('bundleActivated', sequence));
  store.change(bundleId, { provenAt: sequence }, event('bundleProven', sequence));
  const why = { ...event('bundleRetired', sequence, `ocp ${sequence} was retired`), bundleId };
  store.change(bundleId, { retiredAt: sequence + 1, removeImages: true }, why);
  await store.mirror(signal);
  store.forget(bundleId, undefined);
  await store.mirror(signal);
}

/** What is left of all releases. The history has a limit of its own. */
function sizes() {
  const database = new Database(path, { readonly: true });
  const tables = database
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('event', 'sqlite_sequence')",
    )
    .pluck()
    .all();
  const rows = Object.fromEntries(
    tables.map((name) => [name, database.prepare<[], number>(`SELECT count(*) FROM ${name}`).pluck().get() ?? 0]),
  );
  database.close();
  const stored = opened.store.load();
  const held = [stored.bundles, stored.verdicts, stored.speakers ?? [], [...(stored.pulledByUs ?? [])]];
  const memory = [...held.map(({ length }) => length), opened.store.conditions().size];
  const files = readdirSync(folder, { recursive: true }).length;
  return { rows, files, memory, mirrorBytes: statSync(join(folder, 'state.json')).size };
}

/** Bytes that this process writes to any file meanwhile. */
async function bytesOf(work: () => Promise<void>): Promise<number> {
  const written = () => Number(/wchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
  const before = written();
  await work();
  return written() - before;
}

describe('releases that are over', () => {
  it('leave one line each, at most 200, and no file, row or byte that a later one writes', {
    timeout: 300_000,
  }, async () => {
    for (let sequence = 1; sequence <= 20; sequence += 1) await live(sequence);
    const few = sizes();
    const first = await bytesOf(() => live(21));
    for (let sequence = 22; sequence <= 220; sequence += 1) await live(sequence);
    const many = sizes();
    expect(many.rows).toEqual({ ...few.rows, past: 200 });
    expect(few.rows.past).toBe(20);
    expect([many.files, many.memory]).toEqual([few.files, few.memory]);
    // The counter and the numbers of events have more digits.
    expect(many.mirrorBytes - few.mirrorBytes).toBeLessThan(10);
    expect(await bytesOf(() => live(221))).toBeLessThan(1.3 * first);
    const { past = [], bundles, pulledByUs } = reopen().load();
    expect([past.length, bundles.length, pulledByUs?.size]).toEqual([200, 0, 0]);
    expect(past.at(-1)).toEqual({
      bundleId: release(221).bundleId,
      payload: { name: 'ocp', version: '4.13.221', sequence: 221 },
      record: { adoptedAt: 221, readyAt: 221, activatedAt: 221, provenAt: 221, retiredAt: 222, removeImages: true },
      why: 'ocp 221 was retired',
    });
  });

  it('leave at most 200 lines where they were rolled back: the oldest go, their keys and rejections stay', async () => {
    const { store } = opened;
    const goBack = (sequence: number) => {
      const { bundleId } = release(sequence);
      const keys = [{ keyId: `${sequence}`.padStart(64, '0'), pem: 'PEM', bundleId }];
      store.adopt(release(sequence), event('bundleVerified', sequence), { keys, revoked: [] });
      store.setVerdict({ bundleId, verdict: 'rejected', at: sequence }, event('bundleVetoed'));
      store.change(bundleId, { activatedAt: 1, rolledBackAt: 2, rolledBackReason: 'it failed' }, event('x'));
      store.forget(bundleId, undefined);
    };
    store.setDocument('floors', '[]');
    await live(1);
    for (let sequence = 2; sequence <= 204; sequence += 1) goBack(sequence);
    await store.mirror(signal);
    const sequences = () => (opened.store.load().past ?? []).map(({ payload }) => payload.sequence);
    expect([sequences().length, ...sequences().slice(0, 2), sequences().at(-1)]).toEqual([201, 1, 5, 204]);
    opened.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    opened = openSampleState(path);
    const { rotation, verdicts } = opened.store.load();
    expect([sequences().length, sequences()[0], rotation.keys.length, verdicts.length]).toEqual([200, 5, 203, 203]);
    expect(opened.store.document('floors')).toBe('[]');
  });

  it('have their times again when their stick comes back, and are no candidates then', async () => {
    await live(1);
    const store = reopen();
    store.adopt(release(1), event('bundleVerified', 50));
    const { bundles, past } = reopen().load();
    expect(past).toEqual([]);
    expect(bundles[0]).toMatchObject({ adoptedAt: 50, activatedAt: 1, provenAt: 1, retiredAt: 2, removeImages: true });
  });

  it('stay rolled back when the database is lost; their rejections and keys stay too', async () => {
    const { bundleId } = release(1);
    const { store } = opened;
    const key = { keyId: 'a'.repeat(64), pem: 'PEM', bundleId };
    const gone = { keyId: 'b'.repeat(64), bundleId };
    store.adopt(release(1), event('bundleVerified', 1), { keys: [key], revoked: [gone] });
    store.setVerdict({ bundleId, verdict: 'rejected', at: 1 }, event('bundleVetoed'));
    store.change(
      bundleId,
      { activatedAt: 1, rolledBackAt: 2, rolledBackReason: 'it failed', retiredAt: 3 },
      event('x'),
    );
    store.forget(bundleId, undefined);
    await store.mirror(signal);
    opened.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    opened = openSampleState(path);
    const { past, rotation, verdicts } = opened.store.load();
    expect(past?.map(({ record }) => [record.rolledBackAt, record.rolledBackReason])).toEqual([[2, 'it failed']]);
    expect(rotation).toEqual({ keys: [key], revoked: [gone] });
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(['rejected']);
    // A person starts the stream anew: keys of forgotten releases go as well.
    opened.store.resetStream('ocp', event('streamReset', 9));
    const after = reopen().load();
    expect(after.rotation).toEqual({ keys: [], revoked: [gone] });
    expect(after.past?.[0]?.record.resetAt).toBe(9);
  });

  it('keep what they say about others, until their stream is reset', () => {
    const { store } = opened;
    store.adopt(release(1), event('bundleVerified', 1));
    const advisories = [{ version: '4.13.9', deadend: true, reason: 'it eats disks' }];
    const payload = { name: 'ocp', version: '4.13.1', sequence: 1, advisories };
    const { bundleId, signedBy, signerKeyIds } = release(1);
    const speaker = { bundleId, signedBy, signerKeyIds, contents: { images: [] }, payload };
    store.forget(bundleId, speaker);
    expect(reopen().load().speakers).toEqual([speaker]);
    opened.store.resetStream('ocp', event('streamReset', 9));
    expect(reopen().load().speakers).toEqual([{ ...speaker, resetAt: 9 }]);
  });

  it('are sealed: a changed line counts as damage', async () => {
    await live(1);
    opened.close();
    const database = new Database(path);
    database.exec("UPDATE past SET record = json_set(record, '$.rolledBackAt', 1)");
    database.close();
    opened = openSampleState(path);
    expect(opened.loss?.message).toContain('table past');
    expect(JSON.parse(readFileSync(join(folder, 'state.json'), 'utf8')).content.tables.past).toEqual([]);
  });
});
