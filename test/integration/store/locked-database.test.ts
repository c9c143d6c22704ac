import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { NOON } from '../../support/daemon/scenario.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string) => ({ at: NOON, kind, message: kind });

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-locked-'));
  path = join(folder, 'state.db');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Another program writes to the database. */
function lock() {
  const other = new Database(path);
  other.exec('BEGIN IMMEDIATE');
  return { release: () => other.close() };
}

// SQLite waits 5 s for a lock.
it('a database that another program holds at the start is opened, and is not taken for read-only', async () => {
  openSampleState(path).close();
  const other = lock();
  const log = createRecordingLog();
  const { store, close } = openSampleState(path, log);
  expect([store.trouble(), log.lines]).toEqual([undefined, []]);
  other.release();
  store.append(event('later'));
  await store.settled(signal);
  expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['later']);
  close();
}, 60_000);

it('a change that another program kept out is told, and the next one is made on the same connection', async () => {
  const log = createRecordingLog();
  const { store, close } = openSampleState(path, log);
  const other = lock();
  expect(() => store.append(event('kept out'))).toThrow(
    expect.objectContaining({ code: 'store/write', message: expect.stringContaining('database is locked') }),
  );
  expect(store.trouble()).toMatchObject({ code: 'store/write' });
  other.release();
  store.append(event('later'));
  await store.settled(signal);
  expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['later']);
  expect([store.trouble(), log.lines]).toEqual([undefined, []]);
  close();
}, 60_000);
