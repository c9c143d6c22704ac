import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { examineDatabase } from '../../../src/app/doctor/examine-node.ts';
import { checkDatabase } from '../../../src/doctor/checks.ts';
import { openDatabase } from '../../../src/store/database/database.ts';
import { findingsOf } from '../../support/examined-node.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const folder = folderForEach();

const path = () => join(folder, 'state.db');
const found = () => findingsOf(checkDatabase, { database: (signal) => examineDatabase(folder, signal) });

describe('the check of the database', () => {
  it('tells whether it is there and whole, also while another program has it open', async () => {
    expect(await found()).toMatchObject([{ verdict: 'warning', message: expect.stringContaining('is not there') }]);
    const database = openDatabase(path());
    database.exec('CREATE TABLE x (y); INSERT INTO x VALUES (1)');
    expect(await found()).toMatchObject([{ verdict: 'ok', message: expect.stringMatching(/is whole \(\d+ KiB\)$/) }]);
    database.close();
  });

  it('is no fault of the node where only root can read it', async () => {
    const database = async () => ({ kind: 'private', path: path() }) as const;
    expect(await findingsOf(checkDatabase, { database })).toMatchObject([
      { verdict: 'warning', remedy: "run 'sudo stickpin doctor'" },
    ]);
  });

  it('tells that it is damaged, and leaves it as it is', async () => {
    openDatabase(path()).close();
    const bytes = readFileSync(path());
    bytes.fill(0x5a, 4096, 12_288);
    writeFileSync(path(), bytes);
    expect(await found()).toMatchObject([{ verdict: 'fault', message: expect.stringContaining('is damaged: ') }]);
    writeFileSync(path(), 'no database');
    expect(await found()).toMatchObject([{ verdict: 'fault', message: expect.stringContaining('is damaged: ') }]);
    expect(readFileSync(path(), 'utf8')).toBe('no database');
  });
});
