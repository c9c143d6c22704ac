import { cpSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OpenState } from '../../../src/store/database/open-state.ts';
import { NOON, verified } from '../../support/daemon/scenario.ts';
import { mounting, mountSmallDisk, type SmallDisk } from '../../support/files/small-disk.ts';
import { have } from '../../support/requirements.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';

const { signal } = new AbortController();
const event = (kind: string, sizeBytes = 0) => ({ at: NOON, kind, message: kind.padEnd(sizeBytes, 'x') });

it('a weighty change is in the database itself as soon as no other program reads it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-reader-'));
  const path = join(folder, 'state.db');
  const { store, close } = openSampleState(path);
  const reader = new Database(path);
  try {
    store.adopt(verified(), event('bundleVerified'));
    reader.exec('BEGIN; SELECT * FROM bundle');
    store.setDocument('pins', '{"unclaimed":["a"]}');
    await store.settled(signal);
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    reader.close();
    await store.settled(signal);
    expect(statSync(`${path}-wal`).size).toBe(0);
  } finally {
    close();
    rmSync(folder, { recursive: true, force: true });
  }
});

describe.runIf(have('root', mounting))('a change that fails on a full disk', () => {
  let disk: SmallDisk;
  let path: string;
  let opened: OpenState;
  let killed: string;

  beforeEach(() => {
    disk = mountSmallDisk('tmpfs', 2 * 1024 * 1024);
    path = join(disk.path, 'state.db');
    opened = openSampleState(path);
    opened.store.adopt(verified(), event('bundleVerified'));
    killed = mkdtempSync(join(tmpdir(), 'stickpin-killed-'));
  });
  afterEach(() => {
    opened.close();
    disk.dispose();
    rmSync(killed, { recursive: true, force: true });
  });

  const fillTo = (leftBytes: number) => {
    const { bavail, bsize } = statfsSync(disk.path);
    writeFileSync(join(disk.path, '.filler'), Buffer.alloc(bavail * bsize - leftBytes));
  };
  const failToWrite = () =>
    expect(() => opened.store.append(event('big', 60_000))).toThrow(
      expect.objectContaining({ code: 'store/no-space' }),
    );
  const logBytes = () => statSync(`${path}-wal`).size;
  /** The files as a power cut leaves them. */
  const afterPowerCut = () => {
    for (const suffix of ['', '-wal']) cpSync(`${path}${suffix}`, join(killed, `state.db${suffix}`));
    const { store, loss, close } = openSampleState(join(killed, 'state.db'));
    const kinds = store.events(undefined, 10).map(({ kind }) => kind);
    close();
    return { loss, kinds };
  };

  it('is no damage after a power cut', () => {
    fillTo(24 * 1024);
    failToWrite();
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified'] });
  });

  it('is not in the log alone once there is room, if it matters', async () => {
    fillTo(112 * 1024);
    opened.store.setDocument('pins', JSON.stringify({ unclaimed: ['x'.repeat(40_000)] }));
    await expect(opened.store.mirror(signal)).rejects.toThrow(expect.objectContaining({ code: 'store/no-space' }));
    expect(logBytes()).toBeGreaterThan(40_000);
    disk.free();
    await opened.store.settled(signal);
    expect(logBytes()).toBe(0);
    rmSync(`${path}-wal`);
    cpSync(path, join(killed, 'state.db'));
    const { store, close } = openSampleState(join(killed, 'state.db'));
    expect(store.document('pins')?.length).toBeGreaterThan(40_000);
    close();
  });

  it('is no damage either while the log has no room in the database, and when it has room again', async () => {
    opened.store.append(event('committed', 50_000));
    fillTo(24 * 1024);
    failToWrite();
    expect(logBytes()).toBeGreaterThan(50_000);
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified', 'committed'] });
    disk.free();
    await opened.store.settled(signal);
    opened.store.append(event('small'));
    expect(afterPowerCut()).toEqual({ loss: undefined, kinds: ['bundleVerified', 'committed', 'small'] });
  });
});
