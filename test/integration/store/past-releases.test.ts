import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
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

/** Rows of all tables but the bounded history, and bytes of the mirror. */
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
  return { rows, mirrorBytes: statSync(join(folder, 'state.json')).size };
}

describe('releases that are over', () => {
  it('leave one line each, at most 200, and nothing else in the database and its mirror', {
    timeout: 300_000,
  }, async () => {
    for (let sequence = 1; sequence <= 20; sequence += 1) await live(sequence);
    const few = sizes();
    for (let sequence = 21; sequence <= 220; sequence += 1) await live(sequence);
    const many = sizes();
    expect(many.rows).toEqual({ ...few.rows, past: 200 });
    expect(few.rows.past).toBe(20);
    // The counter and the numbers of events have more digits.
    expect(many.mirrorBytes - few.mirrorBytes).toBeLessThan(10);
    const { past = [], bundles, pulledByUs } = reopen().load();
    expect([bundles.length, pulledByUs?.size]).toEqual([0, 0]);
    expect(past.at(-1)).toEqual({
      bundleId: release(220).bundleId,
      payload: { name: 'ocp', version: '4.13.220', sequence: 220 },
      record: { adoptedAt: 220, readyAt: 220, activatedAt: 220, provenAt: 220, retiredAt: 221, removeImages: true },
      why: 'ocp 220 was retired',
    });
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
    const { bundleId, signedBy } = release(1);
    const speaker = { bundleId, signedBy, contents: { images: [] }, payload };
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
