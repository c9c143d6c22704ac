import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RevocationMemory } from '../../../../../src/app/daemon/trust/revocation-memory.ts';
import {
  EMPTY_RECORD,
  revocationsInForce,
  withRestored,
  withSeen,
} from '../../../../../src/domain/trust/revocation-record.ts';
import { createRevocationStore } from '../../../../support/fake-ports.ts';
import { createRecordingLog } from '../../../../support/recording-log.ts';

const key = 'aa'.repeat(32);
const revoked = withSeen(EMPTY_RECORD, [{ keyId: key }], 1);
const event = { at: 2, kind: 'keyRestored', message: 'restored' };
const idsOf = (memory: RevocationMemory) => revocationsInForce(memory.record()).map(({ keyId }) => keyId);

function make() {
  const store = createRevocationStore();
  const log = createRecordingLog();
  return { store, log, memory: new RevocationMemory(store, log), again: () => new RevocationMemory(store, log) };
}

describe('the memory of revocations', () => {
  it('knows over a restart what it kept', async () => {
    const { memory, again } = make();
    await memory.keep(revoked);
    expect(idsOf(again())).toEqual([key]);
  });

  it('says that revocations are unknown while the file that had them is damaged, until a person removes it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stickpin-state-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'state.json.damaged');
    writeFileSync(file, '{');
    const { again, store } = make();
    store.hidden = file;
    const memory = again();
    expect(memory.trouble()).toMatchObject({ file, hidesRevocations: true });
    rmSync(file);
    expect(memory.trouble()).toBeUndefined();
  });

  it('holds revocations that could not be stored, says so once, and stores them later', async () => {
    const { memory, store, log, again } = make();
    store.fail = new Error('no space');
    await memory.keep(revoked);
    await memory.keep(revoked);
    expect(idsOf(memory)).toEqual([key]);
    expect(log.lines.filter(({ message }) => message.includes('could not be stored'))).toHaveLength(1);
    store.fail = undefined;
    await memory.keep(revoked);
    expect(idsOf(again())).toEqual([key]);
  });

  it('lifts no revocation when that can not be brought to the disk, also after a restart', async () => {
    const { memory, store, again } = make();
    await memory.keep(revoked);
    store.fail = new Error('no space');
    await expect(memory.lift((record) => withRestored(record, [key], 2), event)).rejects.toThrow('no space');
    expect(idsOf(memory)).toEqual([key]);
    expect(idsOf(again())).toEqual([key]);
    store.fail = undefined;
    await memory.lift((record) => withRestored(record, [key], 2), event);
    expect(idsOf(memory)).toEqual([]);
    expect(idsOf(again())).toEqual([]);
  });
});
