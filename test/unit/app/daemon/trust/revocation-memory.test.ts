import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openRevocationMemory } from '../../../../../src/app/daemon/trust/revocation-memory.ts';
import {
  EMPTY_RECORD,
  revocationsInForce,
  withRestored,
  withSeen,
} from '../../../../../src/domain/trust/revocation-record.ts';
import { createRevocationStore, createVirtualClock } from '../../../../support/fake-ports.ts';
import { createRecordingLog } from '../../../../support/recording-log.ts';

const key = 'aa'.repeat(32);
const revoked = withSeen(EMPTY_RECORD, [{ keyId: key }], 1);
const event = { at: 2, kind: 'keyRestored', message: 'restored' };
let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-state-'));
  path = join(folder, 'revocations.json');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const log = createRecordingLog();
const open = (store = createRevocationStore()) =>
  openRevocationMemory({ path, store, clock: createVirtualClock(), log });
const idsOf = (memory: Awaited<ReturnType<typeof open>>) =>
  revocationsInForce(memory.record()).map(({ keyId }) => keyId);

describe('the memory of revocations', () => {
  it('reads the file when the database is lost, and the database when the file is lost', async () => {
    const store = createRevocationStore();
    await (await open(store)).keep(revoked);
    expect(idsOf(await open())).toEqual([key]);
    rmSync(path);
    const again = await open(store);
    expect(idsOf(again)).toEqual([key]);
    await again.keep(again.record());
    expect(idsOf(await open())).toEqual([key]);
  });

  it('uses the database when the file is damaged, and keeps the file under another name', async () => {
    const store = createRevocationStore();
    await (await open(store)).keep(revoked);
    writeFileSync(path, readFileSync(path).subarray(0, 40));
    const memory = await open(store);
    expect(memory.trouble()).toBeUndefined();
    await memory.keep(memory.record());
    expect(readdirSync(folder).filter((name) => name.includes('.damaged-'))).toHaveLength(1);
    expect(idsOf(await open())).toEqual([key]);
  });

  it('says that revocations are unknown while the file is damaged and the database is lost, and leaves the file', async () => {
    writeFileSync(path, '{"schemaVersion":1');
    const memory = await open();
    expect(memory.trouble()).toMatchObject({ file: path, hidesRevocations: true });
    await memory.keep(revoked);
    expect(readFileSync(path, 'utf8')).toBe('{"schemaVersion":1');
    rmSync(path);
    await memory.keep(memory.record());
    expect(memory.trouble()).toBeUndefined();
    expect(idsOf(await open())).toEqual([key]);
  });

  it('lifts no revocation when that can not be written', async () => {
    const store = createRevocationStore();
    const memory = await open(store);
    await memory.keep(revoked);
    rmSync(path);
    mkdirSync(path);
    await expect(memory.lift((record) => withRestored(record, [key], 2), event)).rejects.toThrow();
    expect(idsOf(memory)).toEqual([key]);
    expect(store.rows).toEqual([]);
    rmSync(path, { recursive: true });
    await memory.lift((record) => withRestored(record, [key], 2), event);
    expect(idsOf(memory)).toEqual([]);
    expect(idsOf(await open(store))).toEqual([]);
    expect(store.rows).toEqual([event]);
  });
});
