import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { openState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../support/files/small-disk.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { loseMirror } from '../../support/state/lose-state.ts';

const event = (kind: string) => ({ at: NOON, kind, message: kind });

describe.runIf(have('root', mounting))('a database on a disk that is read-only at the start', () => {
  let disk: SmallDisk;
  let path: string;
  let standbyDirectory: string;

  beforeEach(() => {
    disk = mountSmallDisk('tmpfs', 4 * 1024 * 1024);
    path = join(disk.path, 'state.db');
    standbyDirectory = mkdtempSync(join(tmpdir(), 'stickpin-standby-'));
  });
  afterEach(() => {
    disk.dispose();
    rmSync(standbyDirectory, { recursive: true, force: true });
  });

  const open = () => openState({ path, standbyDirectory, revive: reviveBundle, log: createRecordingLog(), now: NOON });

  it('takes changes once it can be written, also when its temporary copy can not be removed', async () => {
    open().close();
    disk.readOnly();
    const { store, close } = open();
    const busy = join(standbyDirectory, 'busy');
    mkdirSync(busy);
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', busy]);
    try {
      disk.writable();
      await eventually(() => store.append(event('later')), 20_000);
      expect(store.events(undefined, 10).map(({ kind }) => kind)).toEqual(['later']);
    } finally {
      execFileSync('umount', [busy]);
      close();
    }
  });

  it('and that another version wrote is refused, and nothing of it is known', () => {
    const { store, close } = open();
    store.adopt(verified(), event('bundleVerified'));
    close();
    const database = new Database(path);
    database.pragma('user_version = 2');
    database.close();
    loseMirror(disk.path);
    disk.readOnly();
    const state = open();
    expect(state.refusal?.code).toBe('store/version');
    expect(state.store.load().bundles).toEqual([]);
    expect(() => state.store.append(event('later'))).toThrow(expect.objectContaining({ code: 'store/version' }));
    state.close();
  });
});
