import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../../src/store/database/database.ts';
import { SUMMED_TABLES } from '../../../src/store/database/row-sums.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const bundle = verified();
const reference = bundle.contents.images[0]?.reference ?? '';
const keyId = 'a'.repeat(64);
const event = (kind: string) => ({ at: NOON, kind, message: kind });

/** Rows that are only shown, or that are harmless when they are wrong: they have no checksum. */
const WITHOUT_SUM = ['condition', 'event', 'tag_given'];

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-sums-'));
  path = join(folder, 'state.db');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = () => openSampleState(path);

/** Writes to every table that has checksums, through the store. */
function fill(): void {
  const { store, close } = open();
  const rotation = { keys: [{ keyId, pem: 'PEM', bundleId: bundle.bundleId }], revoked: [] };
  store.adopt(bundle, event('adopted'), rotation);
  store.adopt(verified({ version: '4.13.8', sequence: 9 }), event('adopted'), {
    keys: [],
    revoked: [{ keyId: 'b'.repeat(64), bundleId: bundle.bundleId }],
  });
  store.change(bundle.bundleId, { readyAt: NOON }, event('ready'));
  store.setPulledByUs(reference, true);
  store.cancel([bundle.bundleId], ['7-sdb1'], event('cancelled'));
  store.setVerdict({ bundleId: bundle.bundleId, verdict: 'approved', at: NOON }, event('approved'));
  store.setRevocationRecord({ folders: ['/keys'], revocations: [] }, event('revoked'));
  store.setDocument('floors', '{"version":1}');
  close();
}

/** Changes the database as a flipped bit does: past SQLite's own checks and past the checksums. */
function tamper(sql: string): void {
  const database = new Database(path);
  database.exec(sql);
  database.close();
}

describe('checksums of rows', () => {
  it('exist in every table except those whose rows are only shown', () => {
    const database = openDatabase(path);
    const tables = database
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all();
    database.close();
    expect([...SUMMED_TABLES, ...WITHOUT_SUM].sort()).toEqual(tables.sort());
  });

  it('are right after every kind of write: the database opens again without loss', () => {
    fill();
    const { store, loss, close } = open();
    expect(loss).toBeUndefined();
    expect(store.load().bundles).toHaveLength(2);
    expect(store.load().pulledByUs).toEqual(new Set([reference]));
    close();
  });

  it.each([
    ['bundle_content', "UPDATE bundle_content SET contents = replace(contents, 'sha256', 'sha254')"],
    ['bundle_content', "UPDATE bundle_content SET payload = replace(payload, '4.13.8', '4.13.9')"],
    ['bundle', 'UPDATE bundle SET ready_at = ready_at + 1'],
    ['bundle', 'UPDATE bundle SET retired_at = 1'],
    ['bundle', 'UPDATE bundle SET sum = NULL'],
    ['brought_image', "UPDATE brought_image SET reference = reference || 'x'"],
    ['cancellation', 'UPDATE cancellation SET at = at + 1'],
    ['verdict', "UPDATE verdict SET verdict = 'rejected'"],
    ['rotated_key', "UPDATE rotated_key SET pem = 'PEN'"],
    ['revoked_key', "UPDATE revoked_key SET key_id = replace(key_id, 'b', 'c')"],
    ['document', "UPDATE document SET content = replace(content, 'keys', 'kevs') WHERE name = 'revocations'"],
    ['document', `UPDATE document SET content = '{"version":2}' WHERE name = 'floors'`],
    ['origin', "UPDATE origin SET id = '0'"],
  ])('find a changed value in %s: %s', (table, sql) => {
    fill();
    tamper(sql);
    const { store, loss, close } = open();
    expect(loss?.message).toContain(`a row of its table ${table} is not as it was written (wrong checksum)`);
    expect(loss?.message).toContain('ll pins stay');
    expect(store.load().bundles).toEqual([]);
    close();
    expect(readdirSync(folder).filter((name) => name.startsWith('state.db.damaged-'))).not.toEqual([]);
  });
});
